// What is said of ranks that others wait for.

#include <algorithm>

#include "report/flight/behind.hpp"

namespace weft::report {
namespace {

constexpr std::int64_t second = 1'000'000'000;

std::string progress_text(const FlightRecord& record) {
  std::string result;
  for (const FlightProgress& one : record.progress) {
    result += text(result.empty() ? "" : "; ", "step ", one.step, " of ", one.track);
    if (one.waits_for_count == 0) continue;
    result += " waits for";
    for (const std::string& name : one.waits_for)
      result += text(&name == &one.waits_for.front() ? " " : ", ", name);
    const auto more = one.waits_for_count - static_cast<std::int64_t>(one.waits_for.size());
    if (more > 0)
      result += text(one.waits_for.empty() ? " " : " and ", more,
                     more == 1 ? " more parameter" : " more parameters");
  }
  return result;
}

/// What a rank that is behind has not ended, on every other lane, groups too.
std::string unfinished(const FlightLane& lane, const LaneMember& member) {
  std::string result;
  for (const FlightCommunicator& communicator : member.record->communicators) {
    for (const Lane other : {Lane::host, Lane::device, Lane::group}) {
      if (&communicator == member.communicator && other == lane.lane) continue;
      const auto& operations = communicator.on(other);
      const auto open = std::ranges::find_if_not(operations, &FlightOperation::ended);
      if (open == operations.end()) continue;
      result += text(result.empty() ? "" : ", ", brief(other, *open), " of '", communicator.name, "' (",
                     name(other), ')');
    }
  }
  return result;
}

void tell_behind(const Behind& found, std::vector<Evidence>& evidence) {
  for (std::size_t i = 0; i < std::min(found.behind.size(), most_lines); ++i) {
    const LaneMember& member = *found.behind[i];
    const FlightRecord& record = *member.record;
    std::string line = text("rank ", record.rank);
    if (member.communicator == nullptr) {
      line += " has no such communicator: not made yet, or left";
    } else if (member.operations().empty()) {
      line += " has issued nothing there";
    } else {
      const FlightOperation& last = member.operations().back();
      line += text("'s last operation is ", found.lane->text(last), ", ", name(last.state));
    }
    if (const std::string open = unfinished(*found.lane, member); !open.empty())
      line += text("; not ended is ", open);
    if (const std::string progress = progress_text(record); !progress.empty()) line += "; " + progress;
    evidence.push_back({record.file, 0, line});
    if (record.error)
      evidence.push_back({record.file, 0, text(name(record.error->kind), ": ", record.error->message)});
  }
}

void tell_waiting(const Behind& found, std::vector<Evidence>& evidence) {
  for (std::size_t i = 0; i < std::min(found.waiting.size(), most_lines); ++i) {
    const Waiting& one = found.waiting[i];
    const FlightRecord& record = *one.member->record;
    const auto waited = one.waited_ns();
    const FlightOperation& last = one.member->operations().back();
    evidence.push_back({record.file, 0,
                        text("rank ", record.rank, " waits in ", found.lane->text(*one.operation), ", ",
                             name(one.operation->state), waited ? text(", for ", seconds_text(*waited)) : "",
                             &last == one.operation ? ""
                                                    : text("; its last is ", brief(found.lane->lane, last),
                                                           ", ", name(last.state)))});
  }
  if (found.behind.size() > most_lines)
    evidence.push_back({found.behind.back()->record->file, 0,
                        text("of ranks that are behind there are ", found.behind.size(), " in all")});
  if (found.waiting.size() > most_lines)
    evidence.push_back({found.waiting.back().member->record->file, 0,
                        text("of ranks that wait there are ", found.waiting.size(), " in all")});
}

/// Ranks whose record is older than what they are behind for; @param evidence gets a line for each of the
/// first
std::vector<int> told_long_ago(const Behind& found, std::vector<Evidence>& evidence) {
  std::vector<int> ranks;
  for (const LaneMember* member : found.behind) {
    const FlightRecord& record = *member->record;
    std::optional<std::int64_t> since;
    for (const Waiting& one : found.waiting) {
      const auto began = one.began_wall();
      if (began) since = std::min(since.value_or(*began), *began);
    }
    if (record.failed() || !since || *since <= record.wall_ns) continue;
    ranks.push_back(record.rank);
    if (ranks.size() <= most_lines)
      evidence.push_back({record.file, 0,
                          text("written on a signal, ", seconds_text(*since - record.wall_ns),
                               " before others began to wait: rank ", record.rank,
                               " may have ended since without another record")});
  }
  return ranks;
}

bool in_group(const FlightRecord& record) {
  return std::ranges::any_of(record.communicators, [](const FlightCommunicator& one) {
    return !std::ranges::all_of(one.on(Lane::group), &FlightOperation::ended);
  });
}

/// The last operation of those behind, where that is not through.
const FlightOperation* held_up(const Behind& found) {
  const auto& operations = found.behind.front()->operations();
  return operations.empty() || operations.back().ended() ? nullptr : &operations.back();
}

bool others_through(const Behind& found, const FlightOperation& held) {
  return std::ranges::any_of(found.lane->members, [&](const LaneMember& member) {
    const FlightOperation* one = member.at(held.number);
    return one != nullptr && one->state == State::done;
  });
}

double confidence_of(const Behind& found, bool failed, bool explained, bool old) {
  const auto longest = found.longest_ns();
  double confidence = failed ? 0.9 : 0.8;
  if (!failed && !longest) confidence = 0.6;
  // Ranks that are well are apart as well, by what they compute and by when the signal came.
  if (!failed && longest && *longest < second) confidence = 0.4;
  if (explained || old) confidence = std::min(confidence, 0.6);
  const FlightOperation* held = held_up(found);
  const bool all_held = held != nullptr && !others_through(found, *held);
  if (all_held || !found.waits_for_others.empty()) confidence = std::min(confidence, 0.5);
  return confidence;
}

std::string fix_of(const Behind& found) {
  const LaneMember& first = *found.behind.front();
  if (first.record->error && first.record->error->own())
    return text("mend what rank ", first.record->rank, " reports: it came no further");
  const std::string who = ranks_text(ranks_of(found.behind));
  if (!found.waits_for_others.empty())
    return text("see the other communicators first: ", ranks_text(found.waits_for_others),
                " waits there; if ranks wait for each other, issue the operations of all communicators in "
                "the same order everywhere");
  if (const FlightOperation* held = held_up(found)) {
    return text("see what holds up ", brief(found.lane->lane, *held), " on ", who, ": ",
                others_through(found, *held)
                    ? "others are through it, so its device or its connection is slow or stuck"
                    : "no rank is through it, so it may be the network, or another rank's device");
  }
  if (in_group(*first.record))
    return text("see whom the send/receive groups of ", who,
                " wait for: a peer that does not send or receive");
  return text("see what ", who,
              " does instead (a stack trace: gdb -p or py-spy; its data loading, a branch "
              "that only it takes, parameters it never marks ready)");
}

}  // namespace

Finding finding_of(const Behind& found, bool failed, bool explained) {
  Finding finding{.cause = "rank-behind", .severity = failed ? Severity::critical : Severity::warning};
  const auto longest = found.longest_ns();
  const auto behind = ranks_of(found.behind);
  const auto waiting = ranks_of(found.waiting);
  const FlightOperation& wanted = *std::ranges::min_element(found.waiting, {}, [](const Waiting& one) {
                                     return one.operation->number;
                                   })->operation;
  finding.verdict =
      text(ranks_text(behind), behind.size() == 1 ? " is" : " are", " behind on ", found.lane->text(), ": ",
           ranks_text(waiting), waiting.size() == 1 ? " waits in " : " wait in ",
           brief(found.lane->lane, wanted), longest ? text(", for up to ", seconds_text(*longest)) : "");
  tell_behind(found, finding.evidence);
  tell_waiting(found, finding.evidence);
  const bool old = !told_long_ago(found, finding.evidence).empty();
  finding.confidence = confidence_of(found, failed, explained, old);
  finding.fix = fix_of(found);
  return finding;
}

}  // namespace weft::report
