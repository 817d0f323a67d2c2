// Causes that the lines of PyTorch's watchdog show when those of all ranks are compared.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using Findings = std::vector<Finding>;
using Stops = std::vector<const TorchStop*>;

constexpr std::size_t most_ranks = 8;

/// "rank 3", "ranks 1, 2, 3 and 12 more"
std::string named(const std::set<std::int64_t>& ranks) {
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t count = 0;
  for (const std::int64_t rank : ranks) {
    if (count == most_ranks) return text(words, " and ", ranks.size() - most_ranks, " more");
    words += text(count++ == 0 ? "" : ", ", rank);
  }
  return words;
}

std::set<std::int64_t> ranks_of(const Stops& stops) {
  std::set<std::int64_t> ranks;
  for (const TorchStop* one : stops) ranks.insert(one->rank);
  return ranks;
}

std::string call_of(const TorchStop& stop) {
  return text(stop.operation.empty() ? "a collective" : stop.operation, " #", stop.sequence,
              stop.elements.empty() ? "" : text(" (", stop.elements, ')'));
}

/// The earliest of each rank: what follows it waits for it.
std::map<std::string, Stops> waiting_by_group(const Job& job) {
  std::map<std::string, Stops> groups;
  for (const TorchStop& stop : job.torch_stops) {
    if (stop.sequence < 0 && stop.enqueued < 0) continue;
    Stops& stops = groups[stop.group];
    const auto known = std::ranges::find(stops, stop.rank, &TorchStop::rank);
    if (known == stops.end()) {
      stops.push_back(&stop);
    } else if (stop.sequence >= 0 && (stop.sequence < (*known)->sequence || (*known)->sequence < 0)) {
      *known = &stop;
    }
  }
  return groups;
}

std::vector<Evidence> evidence_of(const TorchStop& a, const TorchStop& b) {
  return {a.evidence, b.evidence};
}

/// Under one number two calls, or other calls under other numbers.
bool find_other_call(const Stops& stops, Findings& findings) {
  for (const TorchStop* one : stops) {
    const TorchStop& first = *stops.front();
    if (one->operation.empty() || first.operation.empty()) continue;
    const bool same_number = one->sequence == first.sequence;
    const bool same_call =
        one->operation == first.operation && (!same_number || one->elements == first.elements);
    if (same_call) continue;
    Finding finding =
        finding_of("mismatched-collective", same_number ? 0.92 : 0.85, evidence_of(first, *one));
    finding.verdict = text("rank ", first.rank, " waits in ", call_of(first), " where rank ", one->rank,
                           " waits in ", call_of(*one), " of the same group");
    findings.push_back(std::move(finding));
    return true;
  }
  return false;
}

/// A rank that has not issued what others wait in.
bool find_behind(const Stops& stops, Findings& findings) {
  const auto last = [](const TorchStop* one) { return one->enqueued >= 0 ? one->enqueued : one->sequence; };
  const auto waits = [](const TorchStop* one) { return one->sequence >= 0 ? one->sequence : one->enqueued; };
  const TorchStop* least = *std::ranges::min_element(stops, {}, last);
  const TorchStop* most = *std::ranges::max_element(stops, {}, waits);
  if (last(least) >= waits(most)) return false;
  Stops behind;
  std::ranges::copy_if(stops, std::back_inserter(behind),
                       [&](const TorchStop* one) { return last(one) < waits(most); });
  Finding finding = finding_of("rank-behind", 0.88, evidence_of(*least, *most));
  finding.verdict = text(named(ranks_of(behind)), behind.size() == 1 ? " is" : " are",
                         " behind: the last collective of rank ", least->rank, " is #", last(least),
                         ", and rank ", most->rank, " waits in ", call_of(*most));
  findings.push_back(std::move(finding));
  return true;
}

std::int64_t ranks_in_job(const Job& job) {
  std::int64_t most = 0;
  for (const Process& one : job.processes) most = std::max(most, one.ranks);
  for (const TorchStop& one : job.torch_stops) most = std::max(most, one.rank + 1);
  return most;
}

/// All wait in one collective: the ranks that say nothing, or the network.
void find_same_call(const Job& job, const Stops& stops, Findings& findings) {
  std::set<std::int64_t> silent;
  const std::set<std::int64_t> said = ranks_of(stops);
  for (std::int64_t rank = 0; rank < ranks_in_job(job) && silent.size() < 4096; ++rank) {
    if (!said.contains(rank)) silent.insert(rank);
  }
  const TorchStop& first = *stops.front();
  if (first.sequence < 0 || (stops.size() < 2 && silent.empty())) return;
  if (!silent.empty()) {
    Finding finding = finding_of("rank-behind", stops.size() < 2 ? 0.4 : 0.6, {first.evidence});
    finding.verdict = text(named(said), said.size() == 1 ? " waits in " : " wait in ", call_of(first),
                           ", and ", named(silent), silent.size() == 1 ? " says nothing" : " say nothing",
                           ": not of this group, stuck elsewhere, or ended before");
    if (stops.size() < 2)
      finding.severity = Severity::warning;  // the logs of the others may only be left out
    return findings.push_back(std::move(finding));
  }
  Finding finding = finding_of("collective-stuck", 0.6, evidence_of(first, *stops.back()));
  finding.verdict = text("all of ", stops.size(), " ranks wait in ", call_of(first),
                         ": the network or a kernel does not go on; no rank is missing");
  findings.push_back(std::move(finding));
}

void find_stops(const Job& job, Findings& findings) {
  for (const auto& [group, stops] : waiting_by_group(job)) {
    const std::size_t before = findings.size();
    if (!find_other_call(stops, findings) && !find_behind(stops, findings))
      find_same_call(job, stops, findings);
    for (std::size_t i = before; i < findings.size(); ++i) {
      if (!group.empty()) findings[i].verdict += text(" (group ", group, ')');
    }
  }
}

/// The heartbeat monitor names no collective. Ranks whose own watchdog stands still are held up outside of NCCL's work.
void find_heartbeats(const Job& job, Findings& findings) {
  Stops stuck;
  for (const TorchStop& one : job.torch_stops) {
    if (one.heartbeat) stuck.push_back(&one);
  }
  if (stuck.empty()) return;
  std::set<std::int64_t> others;
  const std::set<std::int64_t> ranks = ranks_of(stuck);
  for (std::int64_t rank = 0; rank < ranks_in_job(job) && others.size() < 4096; ++rank) {
    if (!ranks.contains(rank)) others.insert(rank);
  }
  Finding timeout = finding_of("watchdog-timeout", 0.5, {stuck.front()->evidence});
  timeout.verdict = text("the watchdog of ", named(ranks), " stood still until the heartbeat monitor ended ",
                         ranks.size() == 1 ? "it" : "them",
                         ": a CUDA or NCCL call, or another thread with Python's lock, held it up");
  timeout.fix =
      "see what the other ranks did (py-spy dump, TORCH_NCCL_TRACE_BUFFER_SIZE=2000); data loading on one "
      "rank alone, a checkpoint or a "
      "compilation of more than TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";
  findings.push_back(std::move(timeout));
  if (others.empty()) return;
  Finding finding = finding_of("rank-behind", 0.55, {stuck.front()->evidence});
  finding.verdict = text(named(ranks), ranks.size() == 1 ? " was" : " were",
                         " held up and ended by the heartbeat monitor; ", named(others),
                         others.size() == 1 ? " was" : " were", " not: see what ",
                         others.size() == 1 ? "it" : "they", " did instead");
  findings.push_back(std::move(finding));
}

void find_lost_ids(const Job& job, Findings& findings) {
  const auto one =
      std::ranges::find_if(job.torch_stops, [](const TorchStop& stop) { return stop.waits_for >= 0; });
  if (one == job.torch_stops.end()) return;
  Finding finding = finding_of("init-store-timeout", 0.75, {one->evidence});
  finding.verdict =
      text("rank ", one->waits_for, " did not begin the communicator that rank ", one->rank, " waits for");
  findings.push_back(std::move(finding));
}

constexpr JobRule stop_table[] = {
    {"mismatched-collective, rank-behind, collective-stuck", "PyTorch's watchdog, compared over ranks",
     find_stops},
    {"watchdog-timeout, rank-behind", "PyTorch's heartbeat monitor", find_heartbeats},
    {"init-store-timeout", "a rank that waits for the id of a communicator until a timeout", find_lost_ids},
};

}  // namespace

std::span<const JobRule> stop_rules() {
  return stop_table;
}

}  // namespace weft::report::nccl
