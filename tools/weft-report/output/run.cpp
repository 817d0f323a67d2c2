#include "weft-report/output/run.hpp"

#include <algorithm>

#include "weft-report/nccl/judge.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

using nccl::Channels;
using nccl::Process;
using Pair = std::pair<std::size_t, std::size_t>;

/// Rows of a table of hosts; in larger jobs hosts that say the same are one row.
constexpr std::size_t most_rows = 32;

void add(std::set<std::string>& values, const nccl::Fact& fact) {
  if (fact) values.insert(fact.value);
}

/// "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.1.0.1<0>": the ports.
void add_nics(std::string_view list, std::set<std::string>& nics) {
  list = list.substr(0, list.find(';'));
  while (!list.empty()) {
    const auto space = std::min(list.find(' '), list.size());
    std::string_view one = list.substr(0, space);
    list.remove_prefix(std::min(space + 1, list.size()));
    if (one.starts_with('[')) one.remove_prefix(std::min(one.size(), one.find(']') + 1));
    if (one.find('/') != std::string_view::npos) nics.emplace(one);
  }
}

void add(Channels& sum, const Channels& more) {
  sum.p2p += more.p2p;
  sum.shm += more.shm;
  sum.socket += more.socket;
  sum.rdma += more.rdma;
  sum.rdma_direct += more.rdma_direct;
}

/// Both ends of a connection over the network print its channels.
void keep_larger(Channels& known, const Channels& other) {
  known.p2p = std::max(known.p2p, other.p2p);
  known.shm = std::max(known.shm, other.shm);
  known.socket = std::max(known.socket, other.socket);
  known.rdma = std::max(known.rdma, other.rdma);
  known.rdma_direct = std::max(known.rdma_direct, other.rdma_direct);
}

/// Lines without a host that only a rule needs make no host.
bool says_nothing(const Process& one) {
  return one.host.empty() && !one.version && !one.driver && !one.network && !one.bootstrap;
}

void add(const Process& one, HostFacts& host) {
  ++host.processes;
  if (one.rank >= 0 || one.own_end >= 0) host.ranks.insert(one.rank >= 0 ? one.rank : one.own_end);
  add(host.versions, one.version);
  add(host.drivers, one.driver);
  add(host.networks, one.network);
  if (one.bootstrap) host.interfaces.insert(one.bootstrap.value.substr(0, one.bootstrap.value.find(':')));
  add_nics(one.nics.value, host.nics);
  for (const auto& [name, fact] : one.settings) host.settings[name].insert(fact.value);
  host.direct_on += one.direct_on;
  host.direct_off += one.direct_off;
  host.inits_started += one.inits_started;
  host.inits_done += one.inits_done;
  add(host.channels, one.connections);
}

/// Ranks of the widest communicator, by host. A rank that two hosts claim (logs of two jobs) is none.
std::map<std::int64_t, std::size_t> homes(const std::vector<HostFacts>& hosts) {
  std::map<std::int64_t, std::size_t> home;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (const std::int64_t rank : hosts[i].ranks) home.try_emplace(rank, i);
  }
  return home;
}

std::vector<Link> listed(const std::map<Pair, Channels>& links) {
  std::vector<Link> all;
  for (const auto& [ends, channels] : links) all.push_back({ends.first, ends.second, channels});
  return all;
}

void add_links(const nccl::Job& job, RunFacts& run) {
  std::map<Pair, Channels> ranks;
  for (const Process& one : job.processes) {
    for (const auto& [ends, channels] : one.links)
      keep_larger(ranks[{ends >> 32, ends & 0xffffffff}], channels);
  }
  const auto home = homes(run.hosts);
  const auto host_of = [&](std::size_t rank) {
    const auto found = home.find(static_cast<std::int64_t>(rank));
    return found == home.end() ? run.hosts.size() : found->second;
  };
  std::map<Pair, Channels> hosts;
  for (const auto& [ends, channels] : ranks) {
    add(hosts[{host_of(ends.first), host_of(ends.second)}], channels);
  }
  run.rank_links = listed(ranks);
  run.host_links = listed(hosts);
}

/// The fastest where a size was measured several times.
void add_bandwidths(const nccl::Job& job, RunFacts& run) {
  for (const bandwidth::Judged& one : bandwidth::judge(job)) {
    for (const bandwidth::Row& row : one.table->rows) {
      const std::string name = text(one.op.empty() ? "operation not stated" : one.op, ", ", row.dtype,
                                    row.redop.empty() ? "" : " ", row.redop, ", ", one.shape.ranks, " ranks");
      double& best = run.bandwidths[name][row.bytes];
      best = std::max(best, row.best().busbw);
    }
  }
}

}  // namespace

RunFacts run_of(const nccl::Job& job, std::vector<Finding> findings, std::vector<std::string> skipped) {
  RunFacts run{.findings = std::move(findings), .skipped = std::move(skipped), .lines = job.lines};
  std::map<std::string, HostFacts> hosts;
  for (const Process& one : job.processes) {
    if (says_nothing(one)) continue;
    HostFacts& host = hosts[one.host];
    host.host = one.host;
    add(one, host);
    ++run.processes;
  }
  for (auto& [name, host] : hosts) run.hosts.push_back(std::move(host));
  add_links(job, run);
  add_bandwidths(job, run);
  return run;
}

std::string looked_at(const RunFacts& run) {
  const auto lines = static_cast<std::size_t>(std::max<std::int64_t>(run.lines, 0));
  if (run.processes == 0) return counted(lines, "line");
  const std::string processes = text(run.processes, run.processes == 1 ? " process" : " processes");
  return text(counted(lines, "line"), " of ", processes, " on ", counted(run.hosts.size(), "host"));
}

std::vector<std::pair<std::string, int>> by_carrier(const Channels& channels) {
  return {{"P2P", channels.p2p},
          {"SHM", channels.shm},
          {"TCP", channels.socket},
          {"RDMA", channels.rdma},
          {"GPUDirect", channels.rdma_direct}};
}

std::string joined(const std::set<std::string>& values) {
  std::string all;
  for (const std::string& value : values) all += (all.empty() ? "" : ", ") + value;
  return all.empty() ? "-" : all;
}

namespace {

std::vector<std::string> words_of(const HostFacts& host) {
  return {joined(host.versions), joined(host.drivers), joined(host.networks), joined(host.interfaces)};
}

/// Hosts of a large job that say the same, and whose channels are carried by the same.
std::vector<std::vector<const HostFacts*>> grouped_hosts(const RunFacts& run) {
  std::map<std::vector<std::string>, std::size_t> index;
  std::vector<std::vector<const HostFacts*>> groups;
  for (const HostFacts& host : run.hosts) {
    std::vector<std::string> key = words_of(host);
    for (const auto& [name, count] : by_carrier(host.channels)) key.emplace_back(count > 0 ? name : "");
    if (run.hosts.size() <= most_rows) key.push_back(host.host);
    const auto [at, fresh] = index.try_emplace(std::move(key), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(&host);
  }
  std::ranges::stable_sort(groups, {}, &std::vector<const HostFacts*>::size);
  return groups;
}

std::vector<std::string> row_of(const std::vector<const HostFacts*>& hosts) {
  HostFacts sum;
  for (const HostFacts* host : hosts) {
    sum.processes += host->processes;
    sum.inits_done += host->inits_done;
    sum.inits_started += std::max(host->inits_started, host->inits_done);
    add(sum.channels, host->channels);
  }
  const std::string& first = hosts.front()->host;
  std::string name = first.empty() ? "(not named)" : first;
  if (hosts.size() > 1) name += text(" and ", hosts.size() - 1, " more");
  std::vector<std::string> row{std::move(name), std::to_string(sum.processes)};
  for (std::string& words : words_of(*hosts.front())) row.push_back(std::move(words));
  row.push_back(text(sum.inits_done, " of ", sum.inits_started));
  for (const auto& [carrier, count] : by_carrier(sum.channels)) row.push_back(std::to_string(count));
  return row;
}

}  // namespace

TextTable hosts_table(const RunFacts& run) {
  TextTable table{
      .caption = "Hosts",
      .heading = {"host", "processes", "NCCL", "driver", "network", "start-up", "inits done"},
      .note = "P2P, SHM, TCP, RDMA and GPUDirect count channels that the log names, by what carries them."};
  for (const auto& [name, count] : by_carrier({})) table.heading.push_back(name);
  for (const auto& hosts : grouped_hosts(run)) table.rows.push_back(row_of(hosts));
  return table;
}

}  // namespace weft::report
