// Merges the flight records of one run into findings. The steps of examine():
//   1. line up the operations of all ranks by communicator and lane (timelines.cpp);
//   2. find operations that differ under one number (divergence.cpp);
//   3. find the rank that raised an error of its own first; it comes before a divergence that began later;
//   4. find ranks that left no record;
//   5. find ranks for which others wait (behind.cpp);
//   6. if nothing of this was found, find devices that have not begun what others are in (not_begun.cpp), or, where some operation failed, report the
//      earliest failure.
// The cost is linear in the number of operations, times the logarithm of a rank's operations.

#include "weft-report/flight/flight.hpp"

#include <algorithm>
#include <ctime>
#include <map>

#include "weft-report/flight/timelines.hpp"

namespace weft::report {
namespace {

constexpr std::int64_t nanoseconds_per_second =
    1'000'000'000;  // the clocks of two hosts are assumed to differ by less

std::string utc(std::int64_t wall_ns) {
  const auto seconds = static_cast<std::time_t>(wall_ns / nanoseconds_per_second);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char day[32];
  char fraction[8];
  std::strftime(day, sizeof(day), "%F %T", &parts);
  std::snprintf(fraction, sizeof(fraction), ".%03d",
                static_cast<int>(wall_ns % nanoseconds_per_second / 1'000'000));
  return text(day, fraction, " UTC");
}

std::int64_t raised_at(const FlightRecord& record) {
  return record.wall(record.error->at_ns);
}

Evidence told(const FlightRecord& record) {
  if (!record.error) return {record.file, 0, text("rank ", record.rank, " failed and left no message")};
  const FlightError& error = *record.error;
  const std::string number = error.number == 0 ? "" : text(" #", error.number);
  return {record.file, 0,
          text("rank ", record.rank, ", ", utc(raised_at(record)), ", ", name(error.kind),
               error.operation.empty() ? "" : text(" in ", error.operation, number), ": ", error.message)};
}

/// The records whose error satisfies `counts`, earliest first.
template <class Counts>
std::vector<const FlightRecord*> errors_in_order(const std::vector<FlightRecord>& records, Counts&& counts) {
  std::vector<const FlightRecord*> found;
  for (const FlightRecord& record : records) {
    if (record.error && counts(*record.error)) found.push_back(&record);
  }
  std::ranges::stable_sort(found, {}, [](const FlightRecord* one) { return raised_at(*one); });
  return found;
}

struct Raised {
  Finding finding;
  std::int64_t at = 0;
};

std::optional<Raised> raised_first(const std::vector<FlightRecord>& records) {
  const auto raised = errors_in_order(records, [](const FlightError& error) { return error.own(); });
  if (raised.empty()) return std::nullopt;
  const FlightRecord& first = *raised.front();
  Finding finding{.cause = "rank-raised-first", .confidence = 0.95};
  finding.verdict = text(
      "rank ", first.rank, " on ", first.host,
      raised.size() == 1 ? " failed first: "
                         : text(" failed first, of ", raised.size(), " ranks with an error of their own: "),
      name(first.error->kind), ": ", first.error->message);
  bool close = false;
  for (const FlightRecord* one : raised) {
    if (finding.evidence.size() < most_lines) finding.evidence.push_back(told(*one));
    if (one->host != first.host && raised_at(*one) - raised_at(first) < nanoseconds_per_second) close = true;
  }
  if (close) {
    finding.confidence = 0.6;
    finding.verdict += " (a rank of another host within a second: clocks may turn the order round)";
  }
  if (first.reason != "error") {
    finding.confidence = std::min(finding.confidence, 0.7);
    finding.evidence.push_back(
        {first.file, 0,
         text("written ", first.reason == "signal" ? "on a signal" : "by the program itself",
              ": the rank went on after its error")});
  }
  finding.fix =
      text("correct the error of rank ", first.rank, "; the other ranks only waited for it, or lost it");
  return Raised{std::move(finding), raised_at(first)};
}

/// Ranks compare models, options and plans before they go on. (Operations that differ are a divergence.)
std::optional<Finding> disagreed(const std::vector<FlightRecord>& records) {
  const auto all =
      errors_in_order(records, [](const FlightError& error) { return error.kind == ErrorKind::mismatch; });
  if (all.empty()) return std::nullopt;
  Finding finding{.cause = "ranks-disagree", .confidence = 0.9};
  finding.verdict = text("ranks disagreed: ", all.front()->error->message);
  for (std::size_t i = 0; i < std::min(all.size(), most_lines); ++i)
    finding.evidence.push_back(told(*all[i]));
  finding.fix = "give every rank the same there; the first message names what differs";
  return finding;
}

/// The name that the record of another rank would have: "rank-3.json".
std::string file_like(const FlightRecord& record, int rank) {
  const std::string own = std::to_string(record.rank);
  const auto at = record.file.rfind(own);
  return at == std::string::npos ? text("rank ", rank)
                                 : std::string(record.file).replace(at, own.size(), std::to_string(rank));
}

std::optional<Finding> failed_otherwise(const std::vector<FlightRecord>& records) {
  auto errors = errors_in_order(records, [](const FlightError&) { return true; });
  for (const FlightRecord& record : records) {
    if (record.failed() && !record.error) errors.push_back(&record);
  }
  if (errors.empty()) return std::nullopt;
  Finding finding{.cause = "operation-failed", .confidence = 0.5};
  finding.verdict = text("rank ", errors.front()->rank,
                         " failed first, and no rank is behind, diverged or without a record");
  for (std::size_t i = 0; i < std::min(errors.size(), most_lines); ++i)
    finding.evidence.push_back(told(*errors[i]));
  finding.evidence.push_back({errors.front()->file, 0, progress_summary(records)});
  finding.fix =
      "see the messages; where all ranks wait in one operation, its data did not arrive: look at the network "
      "and at the devices";
  return finding;
}

/// "#12" or "#11 to #12"
std::string range(std::uint64_t least, std::uint64_t most, const char* mark) {
  return least == most ? text(mark, least) : text(mark, least, " to ", mark, most);
}

std::string last_of(const CommunicatorTimelines& timelines) {
  std::map<State, std::vector<int>> by_state;
  const auto [least, most] = std::ranges::minmax(timelines.members, {}, &RankTimeline::last);
  std::int64_t longest = 0;
  for (const RankTimeline& member : timelines.members) {
    if (member.operations().empty()) continue;
    const FlightOperation& last = member.operations().back();
    by_state[last.state].push_back(member.record->rank);
    if (!last.ended() && last.issued_ns > 0)
      longest = std::max(longest, member.record->steady_ns - last.issued_ns);
  }
  std::string result = text(timelines.text(), " at ", most.operations().back().called(), ' ',
                            range(least.last(), most.last(), "#"));
  for (const auto& [state, ranks] : by_state) result += text(", ", name(state), " on ", ranks_text(ranks));
  if (longest > 0) result += text(", for up to ", seconds_text(longest));
  return result;
}

}  // namespace

std::optional<Finding> left_no_record(const std::vector<FlightRecord>& records) {
  std::vector<int> missing;
  auto record = records.begin();
  for (int rank = 0; rank < records.front().size; ++rank) {
    if (record != records.end() && record->rank == rank) {
      ++record;
    } else {
      missing.push_back(rank);
    }
  }
  if (missing.empty()) return std::nullopt;
  const bool failed = std::ranges::any_of(records, &FlightRecord::failed);
  const std::string who = ranks_text(missing);
  Finding finding{.cause = "rank-left-no-record", .confidence = failed ? 0.9 : 0.5};
  finding.verdict = text(who, " of ", records.front().size,
                         " left no record: ended before writing one, or not copied here");
  for (std::size_t i = 0; i < std::min(missing.size(), most_lines); ++i)
    finding.evidence.push_back({file_like(records.front(), missing[i]), 0, "is not in the folder"});
  // A rank that lost a peer names it, and says how it ended where that is known.
  const auto lost =
      errors_in_order(records, [](const FlightError& error) { return error.kind == ErrorKind::peer_lost; });
  if (!lost.empty()) finding.evidence.push_back(told(*lost.front()));
  finding.fix = text("see what ended ", who,
                     ": its exit status, the kernel's log (out of memory), the machine; or copy its record "
                     "into the folder");
  return finding;
}

std::vector<Finding> examine(const std::vector<FlightRecord>& records) {
  const std::vector<CommunicatorTimelines> communicators = side_by_side(records);
  std::vector<Divergence> diverged;
  for (const CommunicatorTimelines& timelines : communicators) {
    if (auto one = divergence_on(timelines)) diverged.push_back(std::move(*one));
  }
  // Divergences without a known time come last: nothing shows that they were first.
  std::ranges::stable_sort(diverged, {}, [](const Divergence& one) {
    return std::pair(!one.issued.has_value(), one.issued.value_or(0));
  });
  std::vector<Finding> findings;
  auto raised = raised_first(records);
  for (Divergence& one : diverged) {
    if (raised && one.issued && raised->at < *one.issued) {
      findings.push_back(std::move(raised->finding));
      raised.reset();
    }
    findings.push_back(std::move(one.finding));
  }
  if (raised) findings.push_back(std::move(raised->finding));
  if (diverged.empty()) {
    if (auto mismatch = disagreed(records)) findings.push_back(std::move(*mismatch));
  }
  if (auto missing = left_no_record(records)) findings.push_back(std::move(*missing));
  std::ranges::move(ranks_behind(communicators, records, !findings.empty()), std::back_inserter(findings));
  if (findings.empty()) {
    for (const CommunicatorTimelines& timelines : communicators) {
      if (auto one = not_begun_on(timelines)) findings.push_back(std::move(*one));
    }
  }
  if (findings.empty()) {
    if (auto failed = failed_otherwise(records)) findings.push_back(std::move(*failed));
  }
  return findings;
}

std::string progress_summary(const std::vector<FlightRecord>& records) {
  std::string result = text(records.size(), records.size() == 1 ? " rank" : " ranks");
  std::optional<std::uint64_t> least;
  std::uint64_t most = 0;
  for (const FlightRecord& record : records) {
    for (const FlightProgress& one : record.progress) {
      const auto step = static_cast<std::uint64_t>(one.step);
      least = std::min(least.value_or(step), step);
      most = std::max(most, step);
    }
  }
  if (least) result += text(", step ", range(*least, most, ""));
  const auto communicators = side_by_side(records);
  for (const CommunicatorTimelines& timelines : communicators) result += "; " + last_of(timelines);
  return result + (communicators.empty() ? ", no collective issued yet" : "");
}

}  // namespace weft::report
