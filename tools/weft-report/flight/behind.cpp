// Finds ranks for which others wait, one finding for each lane of a communicator. The steps for a lane:
//   1. collect the operations that a rank has issued and that have not ended (waits());
//   2. a rank is behind if such an operation of another rank has a number beyond the rank's last one
//      (shows());
//   3. of these, keep the ranks whose last operation is the oldest: the others may themselves wait for them;
//   4. lower the confidence where the ranks behind wait on another lane, or their records are too old.

#include <algorithm>
#include <limits>

#include "weft-report/flight/timelines.hpp"

namespace weft::report {
namespace {

/// An operation that its rank has issued and that has not ended.
struct Waiting {
  const RankTimeline* member;
  const FlightOperation* operation;

  std::optional<std::int64_t> began_ns() const {
    if (operation->issued_ns > 0) return operation->issued_ns;
    return operation->begun_ns > 0 ? std::optional(operation->begun_ns) : std::nullopt;
  }
  std::optional<std::int64_t> began_wall() const {
    const auto began = began_ns();
    return began ? std::optional(member->record->wall(*began)) : std::nullopt;
  }
  std::optional<std::int64_t> waited_ns() const {
    const auto began = began_ns();
    if (!began || member->record->steady_ns == 0) return std::nullopt;  // when it was written is not known
    const std::int64_t until = operation->ended_ns > 0 ? operation->ended_ns : member->record->steady_ns;
    return std::max<std::int64_t>(until - *began, 0);  // it may begin while the record is written
  }
};

/// A lane on which some rank is behind.
struct Behind {
  const CommunicatorTimelines* timelines = nullptr;
  std::vector<const RankTimeline*> behind{};
  std::vector<Waiting> waiting{};       // the first waiting operation of each rank
  std::size_t operations = 0;           // how many wait
  std::vector<int> waits_for_others{};  // the ranks behind that wait on another lane

  std::optional<std::int64_t> longest_ns() const {
    std::optional<std::int64_t> longest;
    for (const Waiting& one : waiting) {
      if (const auto waited = one.waited_ns()) longest = std::max(longest.value_or(*waited), *waited);
    }
    return longest;
  }
};

std::vector<int> ranks_of(const std::vector<Waiting>& waiting) {
  std::vector<int> ranks;
  for (const Waiting& one : waiting) ranks.push_back(one.member->record->rank);
  return ranks;
}

/// A failed operation counts as one that waited, unless the error is the rank's own.
bool waits(const Waiting& one) {
  if (one.operation->state == State::failed)
    return !one.member->record->error || !one.member->record->error->own();
  return one.operation->state != State::done;
}

/// Whether it shows that `member` is behind. A rank goes on after a record that a signal asked for: it may
/// since have issued operations that others issued after the record was written.
bool shows(const Waiting& one, const RankTimeline& member, bool failed) {
  if (one.operation->number <= member.last()) return false;
  const auto began = one.began_wall();
  return failed || !began || *began <= member.record->wall_ns;
}

std::optional<Behind> behind_on(const CommunicatorTimelines& timelines, bool failed) {
  std::vector<Waiting> all;
  for (const RankTimeline& member : timelines.members) {
    for (const FlightOperation& one : member.operations()) {
      if (waits({&member, &one})) all.push_back({&member, &one});
    }
  }
  Behind result{.timelines = &timelines};
  auto last = std::numeric_limits<std::uint64_t>::max();
  for (const RankTimeline& member : timelines.members) {
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

constexpr std::int64_t second = 1'000'000'000;

/// The first operation that `member` has not ended on each other lane, groups included.
std::string unfinished(const CommunicatorTimelines& timelines, const RankTimeline& member) {
  std::string result;
  for (const FlightCommunicator& communicator : member.record->communicators) {
    for (const Lane other : {Lane::host, Lane::device, Lane::group}) {
      if (&communicator == member.communicator && other == timelines.lane) continue;
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
    const RankTimeline& member = *found.behind[i];
    const FlightRecord& record = *member.record;
    std::string line = text("rank ", record.rank);
    if (member.communicator == nullptr) {
      line += " has no such communicator: not made yet, or left";
    } else if (member.operations().empty()) {
      line += " has issued nothing there";
    } else {
      const FlightOperation& last = member.operations().back();
      line += text("'s last operation is ", found.timelines->text(last), ", ", name(last.state));
    }
    if (const std::string open = unfinished(*found.timelines, member); !open.empty())
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
    evidence.push_back(
        {record.file, 0,
         text("rank ", record.rank, " waits in ", found.timelines->text(*one.operation), ", ",
              name(one.operation->state), waited ? text(", for ", seconds_text(*waited)) : "",
              &last == one.operation
                  ? ""
                  : text("; its last is ", brief(found.timelines->lane, last), ", ", name(last.state)))});
  }
  if (found.behind.size() > most_lines)
    evidence.push_back({found.behind.back()->record->file, 0,
                        text("of ranks that are behind there are ", found.behind.size(), " in all")});
  if (found.waiting.size() > most_lines)
    evidence.push_back({found.waiting.back().member->record->file, 0,
                        text("of ranks that wait there are ", found.waiting.size(), " in all")});
}

/// Ranks whose record is older than the operations that wait for them. @param evidence gets a line for each
/// of the first `most_lines`
std::vector<int> told_long_ago(const Behind& found, std::vector<Evidence>& evidence) {
  std::vector<int> ranks;
  for (const RankTimeline* member : found.behind) {
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

/// The last operation of the ranks behind, if it has not ended.
const FlightOperation* held_up(const Behind& found) {
  const auto& operations = found.behind.front()->operations();
  return operations.empty() || operations.back().ended() ? nullptr : &operations.back();
}

bool others_through(const Behind& found, const FlightOperation& held) {
  return std::ranges::any_of(found.timelines->members, [&](const RankTimeline& member) {
    const FlightOperation* one = member.at(held.number);
    return one != nullptr && one->state == State::done;
  });
}

double confidence_of(const Behind& found, bool failed, bool explained, bool old) {
  const auto longest = found.longest_ns();
  double confidence = failed ? 0.9 : 0.8;
  if (!failed && !longest) confidence = 0.6;
  // Healthy ranks differ by a little, too: by what they compute, and by when the signal came.
  if (!failed && longest && *longest < second) confidence = 0.4;
  if (explained || old) confidence = std::min(confidence, 0.6);
  const FlightOperation* held = held_up(found);
  const bool all_held = held != nullptr && !others_through(found, *held);
  if (all_held || !found.waits_for_others.empty()) confidence = std::min(confidence, 0.5);
  return confidence;
}

std::string fix_of(const Behind& found) {
  const RankTimeline& first = *found.behind.front();
  if (first.record->error && first.record->error->own())
    return text("correct the error of rank ", first.record->rank, ": it came no further");
  const std::string who = ranks_text(ranks_of(found.behind));
  if (!found.waits_for_others.empty())
    return text("see the other communicators first: ", ranks_text(found.waits_for_others),
                " waits there; if ranks wait for each other, issue the operations of all communicators in "
                "the same order everywhere");
  if (const FlightOperation* held = held_up(found)) {
    return text("see what holds up ", brief(found.timelines->lane, *held), " on ", who, ": ",
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

/// @param failed whether some rank has failed
/// @param explained whether something else is known to be wrong
Finding finding_of(const Behind& found, bool failed, bool explained) {
  Finding finding{.cause = "rank-behind", .severity = failed ? Severity::critical : Severity::warning};
  const auto longest = found.longest_ns();
  const auto behind = ranks_of(found.behind);
  const auto waiting = ranks_of(found.waiting);
  const FlightOperation& wanted = *std::ranges::min_element(found.waiting, {}, [](const Waiting& one) {
                                     return one.operation->number;
                                   })->operation;
  finding.verdict =
      text(ranks_text(behind), behind.size() == 1 ? " is" : " are", " behind on ", found.timelines->text(),
           ": ", ranks_text(waiting), waiting.size() == 1 ? " waits in " : " wait in ",
           brief(found.timelines->lane, wanted), longest ? text(", for up to ", seconds_text(*longest)) : "");
  tell_behind(found, finding.evidence);
  tell_waiting(found, finding.evidence);
  const bool old = !told_long_ago(found, finding.evidence).empty();
  finding.confidence = confidence_of(found, failed, explained, old);
  finding.fix = fix_of(found);
  return finding;
}

}  // namespace

std::vector<Finding> ranks_behind(const std::vector<CommunicatorTimelines>& communicators,
                                  const std::vector<FlightRecord>& records, bool explained) {
  const bool failed = std::ranges::any_of(records, &FlightRecord::failed);
  std::vector<Behind> all;
  for (const CommunicatorTimelines& timelines : communicators) {
    if (auto found = behind_on(timelines, failed)) all.push_back(std::move(*found));
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
