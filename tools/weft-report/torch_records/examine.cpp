// Findings from the dumps of a job. Ranks that diverged, are behind or left no record are found as in weft's own records; what is found
// here is an operation in which all ranks are and which does not end, and entries that the recorder has overwritten.

#include <algorithm>
#include <map>

#include "weft-report/flight/timelines.hpp"
#include "weft-report/torch_records/dump.hpp"
#include "weft/core/error.hpp"

namespace weft::report::torch_records {
namespace {

/// Whether the rank's dump knows when operations begin: PyTorch notes it with TORCH_NCCL_ENABLE_TIMING=1 only.
bool knows_begin(const FlightRecord& record) {
  return std::ranges::any_of(record.communicators, [](const FlightCommunicator& communicator) {
    return std::ranges::any_of(communicator.on(Lane::device),
                               [](const FlightOperation& one) { return one.begun_ns > 0; });
  });
}

/// The ranks of a collective by what became of it.
struct Standing {
  const FlightOperation* operation = nullptr;
  std::vector<int> done{};
  std::vector<int> begun{};
  std::vector<int> not_begun{};
  std::vector<int> unknown{};  ///< not done; whether it began is not noted
  bool given_up = false;

  std::vector<int> waiting() const {
    std::vector<int> all = begun;
    all.insert(all.end(), not_begun.begin(), not_begun.end());
    all.insert(all.end(), unknown.begin(), unknown.end());
    std::ranges::sort(all);
    return all;
  }
};

Standing standing_at(const CommunicatorTimelines& timelines, std::uint64_t number) {
  Standing all;
  for (const RankTimeline& member : timelines.members) {
    const FlightOperation* one = member.at(number);
    if (one == nullptr) continue;
    if (all.operation == nullptr || all.operation->state == State::done) all.operation = one;
    all.given_up = all.given_up || one->state == State::failed;
    std::vector<int>& ranks = one->state == State::done     ? all.done
                              : one->begun_ns > 0           ? all.begun
                              : knows_begin(*member.record) ? all.not_begun
                                                            : all.unknown;
    ranks.push_back(member.record->rank);
  }
  return all;
}

/// The first operation that every member has issued and that has not ended on some.
std::optional<Standing> first_open(const CommunicatorTimelines& timelines) {
  std::optional<std::uint64_t> first;
  for (const RankTimeline& member : timelines.members) {
    const auto open = std::ranges::find_if(
        member.operations(), [](const FlightOperation& one) { return one.state != State::done; });
    if (open != member.operations().end()) first = std::min(first.value_or(open->number), open->number);
  }
  const auto issued = [&](const RankTimeline& member) { return member.at(first.value_or(0)) != nullptr; };
  if (!first || !std::ranges::all_of(timelines.members, issued)) return std::nullopt;
  return standing_at(timelines, *first);
}

void tell(const Standing& standing, const CommunicatorTimelines& timelines, std::vector<Evidence>& evidence) {
  const auto add = [&](const std::vector<int>& ranks, std::string_view what) {
    if (ranks.empty()) return;
    const auto member = std::ranges::find(timelines.members, ranks.front(),
                                          [](const RankTimeline& one) { return one.record->rank; });
    const FlightOperation& one = *member->at(standing.operation->number);
    evidence.push_back(
        {member->record->file, 0, text("on ", ranks_text(ranks), ' ', timelines.text(one), ' ', what)});
  };
  add(standing.not_begun, "is queued and has not begun on the device");
  add(standing.begun, "has begun and not ended");
  add(standing.unknown, "has not ended; whether it began is not noted (TORCH_NCCL_ENABLE_TIMING=1 does)");
  add(standing.done, "is done");
}

std::string fix_of(const Standing& standing) {
  if (!standing.not_begun.empty() && !standing.begun.empty())
    return text("see what runs before it on the devices of ", ranks_text(standing.not_begun),
                ": a kernel that does not end, or another group's operation issued in another order");
  if (!standing.done.empty())
    return text("others are through it: see the device and the connections of ",
                ranks_text(standing.waiting()));
  return "all ranks are in it, so data does not arrive: look at NCCL's logs, the network and the devices "
         "(NCCL_DEBUG=INFO)";
}

/// Operations that all ranks have issued and that do not end, one for each group.
void find_stuck(const std::vector<CommunicatorTimelines>& groups, std::vector<Finding>& findings) {
  for (const CommunicatorTimelines& timelines : groups) {
    if (timelines.lane != Lane::device || timelines.members.size() < 2) continue;
    const auto standing = first_open(timelines);
    if (!standing) continue;
    const std::int64_t timeout_ms =
        standing->operation->details ? standing->operation->details->timeout_ms : 0;
    Finding finding{.cause = "collective-stuck", .confidence = standing->given_up ? 0.7 : 0.5};
    finding.verdict = text(
        brief(timelines.lane, *standing->operation), " of ", timelines.text(), " has not ended on ",
        ranks_text(standing->waiting()), ", and all ranks have issued it",
        standing->given_up && timeout_ms > 0 ? text("; PyTorch gave it up after ", timeout_ms / 1000, " s")
                                             : std::string());
    tell(*standing, timelines, finding.evidence);
    finding.fix = fix_of(*standing);
    findings.push_back(std::move(finding));
  }
}

/// The recorder keeps the newest entries only. That matters where no two ranks' entries of a group reach back to a common one.
void find_overwritten(const std::vector<CommunicatorTimelines>& groups, std::vector<Finding>& findings) {
  for (const CommunicatorTimelines& timelines : groups) {
    const RankTimeline* latest = nullptr;  // whose first entry is the newest
    for (const RankTimeline& member : timelines.members) {
      if (!member.operations().empty() &&
          (latest == nullptr || member.operations().front().number > latest->operations().front().number))
        latest = &member;
    }
    if (latest == nullptr || latest->operations().front().number <= 1) continue;
    const std::uint64_t first = latest->operations().front().number;
    const auto ends_before = [&](const RankTimeline& member) {
      return !member.operations().empty() && member.last() + 1 < first;
    };
    const auto early = std::ranges::find_if(timelines.members, ends_before);
    if (early == timelines.members.end()) continue;
    Finding finding{.cause = "records-overwritten", .severity = Severity::notice, .confidence = 0.9};
    finding.verdict =
        text("the record of rank ", latest->record->rank, " begins at #", first, " of ", timelines.text(),
             ", behind the last of rank ", early->record->rank, ": where they parted is not recorded");
    finding.evidence = {
        {latest->record->file, 0, text("the oldest entry is ", timelines.text(latest->operations().front()))},
        {early->record->file, 0, text("the newest entry is ", timelines.text(early->operations().back()))}};
    finding.fix = "record more: TORCH_NCCL_TRACE_BUFFER_SIZE=20000";
    return findings.push_back(std::move(finding));
  }
}

}  // namespace

std::vector<Finding> examine_torch(const std::vector<FlightRecord>& job) {
  const std::vector<CommunicatorTimelines> groups = side_by_side(job);
  std::vector<Divergence> diverged;
  for (const CommunicatorTimelines& timelines : groups) {
    if (auto one = divergence_on(timelines)) diverged.push_back(std::move(*one));
  }
  std::ranges::stable_sort(diverged, {}, [](const Divergence& one) {
    return std::pair(!one.issued.has_value(), one.issued.value_or(0));
  });
  std::vector<Finding> findings;
  for (Divergence& one : diverged) findings.push_back(std::move(one.finding));
  if (auto missing = left_no_record(job)) findings.push_back(std::move(*missing));
  std::ranges::move(ranks_behind(groups, job, !findings.empty()), std::back_inserter(findings));
  if (findings.empty()) find_stuck(groups, findings);
  find_overwritten(groups, findings);
  return findings;
}

}  // namespace weft::report::torch_records
