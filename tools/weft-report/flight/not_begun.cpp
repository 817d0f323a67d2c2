// An operation that all ranks have issued, that runs on the devices of some and has not begun on those of others: a device that stands still, or a stream
// that does something else. Records tell where they note when a device begins: those of libnccl-profiler-weft.so do.

#include <algorithm>
#include <limits>

#include "weft-report/flight/timelines.hpp"

namespace weft::report {
namespace {

/// Ranks begin an operation at different times, and write their records one after another.
constexpr std::int64_t least_ns = 1'000'000'000;

bool notes_beginnings(const RankTimeline& member) {
  return std::ranges::any_of(member.operations(), [](const FlightOperation& one) {
    return one.state != State::issued && one.begun_ns > 0;
  });
}

/// The first operation that has not ended on some rank. None where all have ended, or a rank has not issued it: that rank is behind.
std::optional<std::uint64_t> first_open(const CommunicatorTimelines& timelines) {
  std::optional<std::uint64_t> first;
  for (const RankTimeline& member : timelines.members) {
    const auto open = std::ranges::find_if_not(member.operations(), &FlightOperation::ended);
    if (open != member.operations().end()) first = std::min(first.value_or(open->number), open->number);
  }
  const auto behind = [&](const RankTimeline& member) { return member.last() < first.value_or(0); };
  return std::ranges::any_of(timelines.members, behind) ? std::nullopt : first;
}

void tell(const std::vector<const RankTimeline*>& members, const CommunicatorTimelines& timelines,
          std::uint64_t number, std::string_view what, std::vector<Evidence>& evidence) {
  for (std::size_t i = 0; i < std::min(members.size(), most_lines); ++i)
    evidence.push_back({members[i]->record->file, 0,
                        text("on rank ", members[i]->record->rank, ' ',
                             timelines.text(*members[i]->at(number)), ' ', what)});
}

}  // namespace

std::optional<Finding> not_begun_on(const CommunicatorTimelines& timelines) {
  if (timelines.lane != Lane::device) return std::nullopt;
  const auto number = first_open(timelines);
  if (!number) return std::nullopt;
  std::vector<const RankTimeline*> running;
  auto since = std::numeric_limits<std::int64_t>::max();
  std::int64_t longest = 0;
  for (const RankTimeline& member : timelines.members) {
    const FlightOperation* one = member.at(*number);
    if (one == nullptr || one->state != State::begun || one->begun_ns == 0) continue;
    running.push_back(&member);
    since = std::min(since, member.record->wall(one->begun_ns));
    longest = std::max(longest, member.record->steady_ns - one->begun_ns);
  }
  if (running.empty()) return std::nullopt;
  std::vector<const RankTimeline*> idle;
  for (const RankTimeline& member : timelines.members) {
    const FlightOperation* one = member.at(*number);
    if (one != nullptr && one->state == State::issued && notes_beginnings(member) &&
        member.record->wall_ns - since >= least_ns)
      idle.push_back(&member);
  }
  if (idle.empty()) return std::nullopt;
  const std::string who = ranks_text(ranks_of(idle));
  const FlightOperation& operation = *idle.front()->at(*number);
  Finding finding{.cause = "collective-stuck", .severity = Severity::warning, .confidence = 0.7};
  finding.verdict =
      text(who, idle.size() == 1 ? " has" : " have", " issued ", brief(timelines.lane, operation), " of ",
           timelines.text(), " and not begun it on the device: ", ranks_text(ranks_of(running)),
           running.size() == 1 ? " has" : " have", " been in it for up to ", seconds_text(longest));
  tell(idle, timelines, *number, "is queued and has not begun on the device", finding.evidence);
  tell(running, timelines, *number, "has begun and not ended", finding.evidence);
  finding.fix = text("see what the device of ", who,
                     " does: an error of the GPU (dmesg: Xid; nvidia-smi -q -d ECC), a kernel before it in "
                     "its stream that does not end, or an operation that it issued in another order");
  return finding;
}

}  // namespace weft::report
