// Finds ranks that issued different operations under one number. The steps for a lane of a communicator:
//   1. the lowest number under which two ranks issued different operations;
//   2. the sides: groups of ranks that agree on that number; the largest counts as right;
//   3. whether a side is the same sequence shifted by one operation, one too many or one left out.

#include <algorithm>
#include <unordered_map>

#include "weft-report/flight/timelines.hpp"

namespace weft::report {
namespace {

/// Ranks that issued the same operation under a number.
struct Side {
  std::vector<int> ranks;
  const FlightOperation* operation = nullptr;
  const RankTimeline* longest = nullptr;  // the rank whose operations reach furthest
};

std::optional<std::uint64_t> lowest_difference(const CommunicatorTimelines& timelines) {
  std::unordered_map<std::uint64_t, const FlightOperation*> first;
  std::optional<std::uint64_t> lowest;
  for (const RankTimeline& member : timelines.members) {
    for (const FlightOperation& one : member.operations()) {
      const auto [known, fresh] = first.try_emplace(one.number, &one);
      if (!fresh && !known->second->agrees_with(one))
        lowest = std::min(lowest.value_or(one.number), one.number);
    }
  }
  return lowest;
}

/// The largest first.
std::vector<Side> sides_at(const CommunicatorTimelines& timelines, std::uint64_t number) {
  std::vector<Side> sides;
  for (const RankTimeline& member : timelines.members) {
    const FlightOperation* one = member.at(number);
    if (one == nullptr) continue;
    auto side = std::ranges::find_if(sides, [&](const Side& s) { return s.operation->agrees_with(*one); });
    if (side == sides.end()) side = sides.insert(sides.end(), {{}, one, &member});
    side->ranks.push_back(member.record->rank);
    if (member.last() > side->longest->last()) side->longest = &member;
  }
  std::ranges::stable_sort(sides, std::greater(), [](const Side& side) { return side.ranks.size(); });
  return sides;
}

/// How many operations of `a` from number `from_a` on equal those of `b` from number `from_b` on.
int alike(const RankTimeline& a, std::uint64_t from_a, const RankTimeline& b, std::uint64_t from_b) {
  for (int count = 0;; ++count) {
    const FlightOperation* one = a.at(from_a++);
    const FlightOperation* other = b.at(from_b++);
    if (one == nullptr || other == nullptr || !one->agrees_with(*other)) return count;
  }
}

/// Says in words how `side` is the sequence of `others` shifted by one; empty if it is not. An alternating
/// sequence looks shifted both ways; the longer match counts.
std::string shift(const CommunicatorTimelines& timelines, const Side& side, const Side& others,
                  std::uint64_t number) {
  const int more = alike(*side.longest, number + 1, *others.longest, number);
  const int fewer = alike(*side.longest, number, *others.longest, number + 1);
  if (more == 0 && fewer == 0) return {};
  const std::string who = ranks_text(side.ranks) + (side.ranks.size() > 1 ? " each" : "");
  const std::string whom = others.ranks.size() == 1 ? ranks_text(others.ranks) : "the others";
  const std::string too_many = text("one operation more than ", whom, ": ", timelines.text(*side.operation));
  const FlightOperation* before = others.longest->at(number - 1);
  const bool alike_before = before != nullptr && before->agrees_with(*others.operation);
  const std::string left_out =
      text("one operation less than ", whom, ": left out is ", timelines.text(*others.operation),
           alike_before ? " or one like it right before" : "");
  if (more == fewer) return text(who, " issued ", too_many, "; or ", left_out);
  return text(who, " issued ", more > fewer ? too_many : left_out);
}

bool knows_before(const CommunicatorTimelines& timelines, std::uint64_t number) {
  return number == 1 || std::ranges::count_if(timelines.members, [&](const RankTimeline& member) {
                          return member.at(number - 1) != nullptr;
                        }) > 1;
}

std::optional<std::int64_t> first_issue(const CommunicatorTimelines& timelines, std::uint64_t number) {
  std::optional<std::int64_t> first;
  for (const RankTimeline& member : timelines.members) {
    const FlightOperation* one = member.at(number);
    if (one == nullptr || one->issued_ns == 0) continue;
    const std::int64_t at = member.record->wall(one->issued_ns);
    first = std::min(first.value_or(at), at);
  }
  return first;
}

}  // namespace

std::optional<Divergence> divergence_on(const CommunicatorTimelines& timelines) {
  const std::optional<std::uint64_t> number = lowest_difference(timelines);
  if (!number) return std::nullopt;
  const std::vector<Side> sides = sides_at(timelines, *number);
  const bool tie = sides[0].ranks.size() == sides[1].ranks.size();
  Finding finding{.cause = "rank-diverged", .confidence = tie ? 0.6 : 0.95};
  std::vector<int> diverged;
  for (std::size_t i = tie ? 0 : 1; i < sides.size(); ++i)
    diverged.insert(diverged.end(), sides[i].ranks.begin(), sides[i].ranks.end());
  std::ranges::sort(diverged);
  for (const Side& side : sides) {
    finding.evidence.push_back({side.longest->record->file, 0,
                                text(ranks_text(side.ranks), " issued ", timelines.text(*side.operation),
                                     " on ", timelines.text())});
  }
  std::string shifted;
  for (std::size_t i = 1; i < sides.size(); ++i) {
    const std::string one = shift(timelines, sides[i], sides[0], *number);
    if (one.empty()) continue;
    if (shifted.empty()) shifted = one;
    finding.evidence.push_back({sides[i].longest->record->file, 0, one});
  }
  if (!knows_before(timelines, *number)) {
    finding.confidence -= 0.2;
    finding.evidence.push_back(
        {sides[0].longest->record->file, 0,
         text("no two records reach back before #", *number, ": ranks may have parted earlier")});
  }
  std::string who = ranks_text(diverged);
  if (tie) {
    who.clear();
    for (const Side& side : sides) who += (who.empty() ? "" : " and ") + ranks_text(side.ranks);
  }
  finding.verdict = text(who, tie ? " parted" : " diverged", " at #", *number, " of ", timelines.text(),
                         tie ? ", a tie: none is the majority" : "", shifted.empty() ? "" : "; ", shifted);
  finding.fix =
      text("issue the same operations in the same order on every rank: see what ", ranks_text(diverged), " ",
           diverged.size() == 1 ? "does" : "do", " differently before #", *number,
           " (a branch on the rank, another number of batches, a parameter without gradient)");
  return Divergence{std::move(finding), first_issue(timelines, *number)};
}

}  // namespace weft::report
