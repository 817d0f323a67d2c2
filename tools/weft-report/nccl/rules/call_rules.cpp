// Causes that the calls of collectives show, by lines of the subsystem COLL or by PyTorch's flight records.

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "weft-report/nccl/rules/rules.hpp"
#include "weft-report/torch_records/dump.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using Findings = std::vector<Finding>;

/// ncclDataType_t and ncclRedOp_t of nccl.h.
constexpr std::array<std::string_view, 12> types{"int8",    "uint8",    "int32",      "uint32",
                                                 "int64",   "uint64",   "float16",    "float32",
                                                 "float64", "bfloat16", "float8e4m3", "float8e5m2"};
constexpr std::array<std::string_view, 5> operations{"sum", "prod", "max", "min", "avg"};

template <std::size_t count>
std::string named(const std::array<std::string_view, count>& names, std::int32_t number) {
  const bool known = number >= 0 && static_cast<std::size_t>(number) < count;
  return known ? std::string(names[static_cast<std::size_t>(number)]) : text(number);
}

std::string name_of(const Call& call) {
  return std::string(call.name.data(), std::ranges::find(call.name, '\0') - call.name.begin());
}
/// "AllReduce of 1024 float32 (sum, root 0)"
std::string text_of(const Call& call) {
  return text(name_of(call), " of ", call.count, ' ', named(types, call.datatype), " (",
              named(operations, call.op), ", root ", call.root, ')');
}
std::string process_text(const Job& job, std::size_t process) {
  const Process& one = job.processes[process];
  const std::string rank = one.rank >= 0 ? text("rank ", one.rank, ", ") : std::string();
  return text(rank, one.host.empty() ? "the process" : one.host, ':', one.pid);
}

/// Without a commId communicators are joined by their order in each process. That holds where there is one of that size.
bool are_of_one(const Job& job, const std::string& comm, std::int64_t ranks, std::size_t order) {
  if (!comm.empty()) return true;
  const auto users = std::ranges::count_if(job.calls, [&](const RankCalls& one) {
    return one.comm.empty() && one.ranks == ranks && one.order == order;
  });
  return users == ranks;
}

void find_call_differences(const Job& job, Findings& findings) {
  for (const CallDifference& one : job.call_differences) {
    if (one.sides.size() < 2 || !are_of_one(job, one.comm, one.ranks, one.order)) continue;
    std::vector<CallDifference::Side> sides = one.sides;
    std::ranges::stable_sort(sides, std::greater(), &CallDifference::Side::ranks);
    const CallDifference::Side& few = sides.back();
    std::vector<Evidence> evidence;
    for (auto side = sides.rbegin(); side != sides.rend(); ++side) {
      if (side->evidence.line > 0) evidence.push_back(side->evidence);
    }
    if (evidence.empty()) continue;
    Finding finding = finding_of("mismatched-collective", one.comm.empty() ? 0.8 : 0.92, std::move(evidence));
    finding.verdict = text(process_text(job, few.process), " calls ", text_of(few.call), " as opCount ",
                           weft::hex(one.op_count), " of a communicator of ", one.ranks, " ranks, where ",
                           sides.front().ranks, " of them call ", text_of(sides.front().call));
    return findings.push_back(std::move(finding));
  }
}

/// In a job that hangs: who has not called what others wait in.
void find_rank_behind(const Job& job, Findings& findings) {
  if (!job.matched("watchdog-timeout")) return;
  std::map<std::string, std::vector<const RankCalls*>> comms;
  for (const RankCalls& one : job.calls) {
    if (are_of_one(job, one.comm, one.ranks, one.order))
      comms[text(one.comm, ' ', one.ranks, ' ', one.order)].push_back(&one);
  }
  for (const auto& [name, ranks] : comms) {
    const auto [least, most] = std::ranges::minmax(ranks, {}, &RankCalls::last);
    if (least->last == most->last) continue;
    const auto behind = std::ranges::count(ranks, least->last, &RankCalls::last);
    Finding finding = finding_of("rank-behind", 0.8, {least->evidence, most->evidence});
    finding.verdict = text(process_text(job, least->process),
                           behind > 1 ? text(" and ", behind - 1, " more are") : std::string(" is"),
                           " behind: the last call in a communicator of ", least->ranks, " ranks is ",
                           name_of(least->call), " with opCount ", weft::hex(least->last),
                           "; others wait in ", name_of(most->call), " with opCount ", weft::hex(most->last));
    return findings.push_back(std::move(finding));
  }
}

/// A communicator that did not come to be, in logs that end without an error: a start that hangs, or a log that was cut.
void find_unfinished_start(const Job& job, Findings& findings) {
  std::int64_t ranks = 0;
  for (const Process& one : job.processes) ranks = std::max(ranks, one.ranks);
  const Process* waits = nullptr;
  std::set<std::int64_t> begun;
  int unfinished = 0;
  for (const Process& one : job.processes) {
    if (one.ranks != ranks || one.rank < 0 || one.inits_started == 0) continue;
    begun.insert(one.rank);
    if (one.inits_done >= one.inits_started || one.connections.all() > 0) continue;
    ++unfinished;
    if (waits == nullptr) waits = &one;
  }
  if (waits == nullptr) return;
  std::string missing;
  for (std::int64_t rank = 0; rank < ranks && begun.size() > 1 && missing.size() < 40; ++rank) {
    if (!begun.contains(rank)) missing += text(missing.empty() ? "" : ", ", rank);
  }
  const Evidence& start = waits->comms.empty() ? waits->first : waits->comms.back().start;
  Finding finding = finding_of("start-unfinished", missing.empty() ? 0.4 : 0.5, {start});
  if (!missing.empty()) finding.severity = Severity::warning;
  finding.verdict = text(unfinished, " of ", begun.size(), " processes have begun a communicator of ", ranks,
                         " ranks, and it was not complete when their logs end",
                         missing.empty() ? std::string(": the start hangs, or the logs were cut")
                                         : text("; of these ranks nothing is heard: ", missing));
  findings.push_back(std::move(finding));
  const auto binds = job.asides.find("NVLink SHARP binds");
  if (binds == job.asides.end()) return;
  Finding nvls = finding_of("nvls-fabricmanager", 0.5, {binds->second, start});
  nvls.severity = Severity::warning;
  nvls.verdict = "possible: the start hangs where GPUs join NVLink SHARP, which Fabric Manager sets up";
  nvls.fix = text("to find out: start with NCCL_NVLS_ENABLE=0; then: ", nvls.fix);
  findings.push_back(std::move(nvls));
}

/// The causes have the names that a log gives them, too.
void find_in_torch_records(const Job& job, Findings& findings) {
  if (job.documents.torch_records.empty()) return;
  for (Finding& one : torch_records::examine_torch(job.documents.torch_records)) {
    if (one.cause == "rank-diverged") one.cause = "mismatched-collective";
    const Cause& cause = cause_named(one.cause);
    one.effect = cause.effect;
    one.not_when = cause.not_when;
    findings.push_back(std::move(one));
  }
}

constexpr JobRule call_table[] = {
    {"mismatched-collective", "lines of the subsystem COLL: ranks with other calls under one opCount",
     find_call_differences},
    {"rank-behind",
     "a watchdog that ended a collective, and lines of the subsystem COLL: a rank whose last opCount is "
     "behind",
     find_rank_behind},
    {"start-unfinished, nvls-fabricmanager",
     "Init START without Init COMPLETE where the logs end, and ranks that never begin",
     find_unfinished_start},
    {"mismatched-collective, rank-behind, rank-left-no-record, collective-stuck, records-overwritten",
     "flight records of PyTorch (nccl_trace_rank_R), compared", find_in_torch_records},
};

}  // namespace

std::span<const JobRule> call_rules() {
  return call_table;
}

}  // namespace weft::report::nccl
