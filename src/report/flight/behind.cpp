// Ranks that others wait for.

#include "report/flight/behind.hpp"

#include <algorithm>
#include <limits>

namespace weft::report {
namespace {

/// Of an operation that failed its rank has waited, unless it is that rank's own error.
bool waits(const Waiting& one) {
  if (one.operation->state == State::failed)
    return !one.member->record->error || !one.member->record->error->own();
  return one.operation->state != State::done;
}

/// Whether it shows that `member` is behind. A record on a signal is of a rank that goes on: what was issued
/// after it was written, its rank may have issued as well.
bool shows(const Waiting& one, const LaneMember& member, bool failed) {
  if (one.operation->number <= member.last()) return false;
  const auto began = one.began_wall();
  return failed || !began || *began <= member.record->wall_ns;
}

std::optional<Behind> behind_on(const FlightLane& lane, bool failed) {
  std::vector<Waiting> all;
  for (const LaneMember& member : lane.members) {
    for (const FlightOperation& one : member.operations()) {
      if (waits({&member, &one})) all.push_back({&member, &one});
    }
  }
  Behind result{.lane = &lane};
  auto last = std::numeric_limits<std::uint64_t>::max();
  for (const LaneMember& member : lane.members) {
    const bool shown =
        std::ranges::any_of(all, [&](const Waiting& one) { return shows(one, member, failed); });
    if (!shown || member.last() > last) continue;
    if (member.last() < last) result.behind.clear();
    last = member.last();
    result.behind.push_back(&member);
  }
  if (result.behind.empty()) return std::nullopt;
  for (const Waiting& one : all) {
    if (one.operation->number <= last) continue;
    ++result.operations;
    if (result.waiting.empty() || result.waiting.back().member != one.member) result.waiting.push_back(one);
  }
  return result;
}

}  // namespace

std::vector<int> ranks_of(const std::vector<const LaneMember*>& members) {
  std::vector<int> ranks;
  for (const LaneMember* member : members) ranks.push_back(member->record->rank);
  return ranks;
}

std::vector<int> ranks_of(const std::vector<Waiting>& waiting) {
  std::vector<int> ranks;
  for (const Waiting& one : waiting) ranks.push_back(one.member->record->rank);
  return ranks;
}

std::vector<Finding> ranks_behind(const std::vector<FlightLane>& lanes,
                                  const std::vector<FlightRecord>& records, bool explained) {
  const bool failed = std::ranges::any_of(records, &FlightRecord::failed);
  std::vector<Behind> all;
  for (const FlightLane& lane : lanes) {
    if (auto found = behind_on(lane, failed)) all.push_back(std::move(*found));
  }
  for (Behind& one : all) {
    for (const int rank : ranks_of(one.behind)) {
      const bool waits_there = std::ranges::any_of(all, [&](const Behind& other) {
        const auto waiting = ranks_of(other.waiting);
        return std::ranges::find(waiting, rank) != waiting.end();
      });
      if (waits_there) one.waits_for_others.push_back(rank);
    }
  }
  std::ranges::stable_sort(all, [](const Behind& a, const Behind& b) {
    if (a.waits_for_others.empty() != b.waits_for_others.empty()) return a.waits_for_others.empty();
    return a.operations > b.operations;
  });
  std::vector<Finding> findings;
  for (const Behind& one : all) findings.push_back(finding_of(one, failed, explained));
  return findings;
}

}  // namespace weft::report
