#include "weft-report/inspector/job.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "weft/core/text.hpp"

namespace weft::report::inspector {
namespace {

/// While files are joined.
struct Building {
  Communicator communicator{};
  std::map<Member, std::uint32_t> members{};
  std::map<std::uint64_t, std::uint16_t> sizes{};
};

std::uint16_t index_of(Building& into, std::uint64_t bytes) {
  constexpr std::size_t most = 0xffff;
  const auto found = into.sizes.find(bytes);
  if (found != into.sizes.end()) return found->second;
  if (into.sizes.size() >= most) return static_cast<std::uint16_t>(most - 1);
  into.communicator.sizes.push_back(bytes);
  return into.sizes.emplace(bytes, static_cast<std::uint16_t>(into.sizes.size())).first->second;
}

/// Members by rank; a rank that two processes claim, as after a restart, stands twice.
void order(Communicator& one) {
  std::vector<std::uint32_t> by_rank(one.members.size());
  for (std::uint32_t i = 0; i < by_rank.size(); ++i) by_rank[i] = i;
  std::ranges::sort(by_rank, {}, [&](std::uint32_t i) { return std::pair(one.members[i].rank, i); });
  std::vector<std::uint32_t> place(by_rank.size());
  std::vector<Member> members;
  for (const std::uint32_t i : by_rank) {
    place[i] = static_cast<std::uint32_t>(members.size());
    members.push_back(std::move(one.members[i]));
  }
  one.members = std::move(members);
  for (std::vector<Sample>& samples : one.operations) {
    for (Sample& sample : samples) sample.rank = place[sample.rank];
    std::ranges::sort(samples, {},
                      [](const Sample& sample) { return std::pair(sample.number, sample.rank); });
    samples.shrink_to_fit();
  }
}

void find_whole_nodes(std::vector<Communicator>& all) {
  std::map<std::string, std::set<std::int64_t>> on_host;
  for (const Communicator& one : all) {
    for (const Member& member : one.members) on_host[member.host].insert(member.pid);
  }
  for (Communicator& one : all) {
    std::map<std::string, std::set<std::int64_t>> own;
    for (const Member& member : one.members) own[member.host].insert(member.pid);
    one.whole_nodes = std::ranges::all_of(
        own, [&](const auto& host) { return host.second.size() == on_host.at(host.first).size(); });
  }
}

}  // namespace

std::size_t Communicator::records() const {
  std::size_t sum = 0;
  for (const auto& samples : operations) sum += samples.size();
  return sum;
}
std::string Communicator::called() const {
  const std::string known = id.empty() ? "not named" : id;
  return name.empty() || name == "unknown" ? known : text(known, " (", name, ')');
}

Job job_of(std::vector<FileRecords>&& all) {
  Job job;
  std::map<std::pair<std::string, std::int64_t>, Building> building;
  for (FileRecords& file : all) {
    std::vector<std::pair<Building*, std::uint32_t>> members;
    for (const Member& member : file.members) {
      Building& into = building[{member.id, member.ranks}];
      Communicator& one = into.communicator;
      if (one.id.empty()) one.id = member.id;
      if (one.name.empty()) one.name = member.name;
      one.ranks = member.ranks;
      one.nodes = std::max(one.nodes, member.nodes);
      const auto [at, added] = into.members.emplace(member, static_cast<std::uint32_t>(one.members.size()));
      if (added) one.members.push_back(member);
      members.emplace_back(&into, at->second);
    }
    for (const Record& record : file.records) {
      const auto& [into, rank] = members[record.member];
      into->communicator.operations[static_cast<std::size_t>(record.kind)].push_back(
          {.number = record.number,
           .rank = rank,
           .microseconds = record.microseconds,
           .when = record.when,
           .size = index_of(*into, file.sizes[record.size]),
           .by_gpu = record.by_gpu});
    }
    ++job.files;
    job.records += file.records.size() + file.left_out;
    job.left_out += file.left_out;
    job.lost += file.lost;
    file = {};
  }
  for (auto& [key, one] : building) {
    order(one.communicator);
    job.communicators.push_back(std::move(one.communicator));
  }
  find_whole_nodes(job.communicators);
  std::ranges::stable_sort(job.communicators, std::ranges::greater{}, &Communicator::records);
  return job;
}

}  // namespace weft::report::inspector
