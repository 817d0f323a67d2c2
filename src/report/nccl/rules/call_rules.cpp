// Causes that the calls of collectives show, by lines of the subsystem COLL or by PyTorch's flight records.

#include <algorithm>
#include <array>
#include <map>

#include "report/nccl/rules/rules.hpp"
#include "report/torch_records/dump.hpp"
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
    {"mismatched-collective, rank-behind, rank-left-no-record, collective-stuck, records-overwritten",
     "flight records of PyTorch (nccl_trace_rank_R), compared", find_in_torch_records},
};

}  // namespace

std::span<const JobRule> call_rules() {
  return call_table;
}

}  // namespace weft::report::nccl
