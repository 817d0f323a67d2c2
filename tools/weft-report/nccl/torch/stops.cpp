#include "weft-report/nccl/torch/stops.hpp"

#include <algorithm>
#include <string>

#include "common/findings/words.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::size_t most_stops = 8192;

/// The number behind the last `label` before `end`; none: -1.
std::int64_t number_before(std::string_view line, std::size_t end, std::string_view label) {
  const auto at = line.substr(0, end).rfind(label);
  return at == std::string_view::npos ? -1 : number_in(line.substr(at + label.size()), -1);
}

/// torchrun's "[rank5]:" is the rank in the job. "[Rank 5]" is that in a group.
std::int64_t rank_of(std::string_view line, std::size_t end) {
  const std::int64_t of_job = number_before(line, end, "[rank");
  if (of_job >= 0) return of_job;
  const std::int64_t alone = number_before(line, end, "[Rank ");
  return alone >= 0 ? alone : number_before(line, end, " Rank ");
}

/// "[PG ID 0 PG GUID 0(default_pg) Rank 1]" is "ID 0 PG GUID 0(default_pg)".
std::string process_group_in(std::string_view line, std::size_t end) {
  const auto at = line.substr(0, end).rfind("[PG ");
  if (at == std::string_view::npos) return {};
  const std::string_view words = line.substr(at + 4);
  const auto rank = words.find(" Rank ");
  return rank == std::string_view::npos ? std::string() : std::string(words.substr(0, rank));
}

/// The one of a rank and group. A group that is not named may be any.
TorchStop* stop_of(Job& job, std::int64_t rank, const std::string& group, std::int64_t sequence,
                   const Said& said) {
  if (rank < 0) return nullptr;
  const auto known = std::ranges::find_if(job.torch_stops, [&](const TorchStop& one) {
    const bool same_group = one.group == group || one.group.empty() || group.empty();
    return one.rank == rank && same_group && (one.sequence == sequence || one.sequence < 0 || sequence < 0);
  });
  if (known != job.torch_stops.end()) {
    if (known->group.empty()) known->group = group;
    if (known->sequence < 0) known->sequence = sequence;
    return &*known;
  }
  if (job.torch_stops.size() == most_stops) return nullptr;
  job.torch_stops.push_back(
      {.rank = rank, .group = group, .sequence = sequence, .evidence = said.evidence()});
  return &job.torch_stops.back();
}

}  // namespace

bool take_timeout(const Said& said, Process&, Job& job) {
  const auto at = said.text.find("Watchdog caught collective operation timeout");
  if (at == std::string_view::npos) return false;
  const std::string_view work = after(said.text.substr(at), "WorkNCCL(");
  const std::int64_t sequence = number_in(after(work, "SeqNum="), -1);
  TorchStop* stop = stop_of(job, rank_of(said.text, at), process_group_in(said.text, at), sequence, said);
  if (stop == nullptr || !stop->operation.empty()) return true;
  const std::string_view operation = after(work, "OpType=");
  stop->operation = operation.substr(0, std::min(operation.find_first_of(",)"), operation.size()));
  const std::string_view elements = work.substr(std::min(work.find("NumelIn="), work.size()));
  stop->elements = elements.substr(0, std::min(elements.find(", Timeout"), elements.size()));
  return true;
}

bool take_progress(const Said& said, Process&, Job& job) {
  const auto at = said.text.find("ast enqueued NCCL work: ");
  if (at == std::string_view::npos) return false;
  const std::string_view rest = said.text.substr(at);
  std::int64_t sequence = number_before(said.text, at, "at work: ");
  if (sequence < 0) sequence = number_before(said.text, at, "NCCL work: ");
  TorchStop* stop = stop_of(job, rank_of(said.text, at), process_group_in(said.text, at), sequence, said);
  if (stop == nullptr) return true;
  stop->enqueued = std::max(stop->enqueued, number_in(after(rest, "enqueued NCCL work: "), -1));
  stop->completed = std::max(stop->completed, number_in(after(rest, "completed NCCL work: "), -1));
  return true;
}

bool take_heartbeat(const Said& said, Process&, Job& job) {
  const auto at =
      std::min(said.text.find("Heartbeat monitor timed out"), said.text.find("watchdog got stuck"));
  if (TorchStop* stop = stop_of(job, rank_of(said.text, at), process_group_in(said.text, at), -1, said))
    stop->heartbeat = true;
  return true;
}

bool take_lost_id(const Said& said, Process&, Job& job) {
  const auto at = said.text.find("] is setting up NCCL communicator");
  const std::string_view from = after(said.text, "ncclUniqueId from [");
  if (at == std::string_view::npos || from.empty()) return false;
  if (TorchStop* stop = stop_of(job, number_before(said.text, at, "["), {}, -1, said))
    stop->waits_for = number_in(from, -1);
  return true;
}

}  // namespace weft::report::nccl
