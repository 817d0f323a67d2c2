// Ranks that issued different operations under one number.

#include <algorithm>
#include <unordered_map>

#include "report/flight/lanes.hpp"

namespace weft::report {
namespace {

/// Ranks that agree on what a number is.
struct Side {
  std::vector<int> ranks;
  const FlightOperation* operation = nullptr;
  const LaneMember* longest = nullptr;  // whose operations reach furthest
};

std::optional<std::uint64_t> lowest_difference(const FlightLane& lane) {
  std::unordered_map<std::uint64_t, const FlightOperation*> first;
  std::optional<std::uint64_t> lowest;
  for (const LaneMember& member : lane.members) {
    for (const FlightOperation& one : member.operations()) {
      const auto [known, fresh] = first.try_emplace(one.number, &one);
      if (!fresh && !known->second->agrees_with(one))
        lowest = std::min(lowest.value_or(one.number), one.number);
    }
  }
  return lowest;
}

/// The largest first.
std::vector<Side> sides_at(const FlightLane& lane, std::uint64_t number) {
  std::vector<Side> sides;
  for (const LaneMember& member : lane.members) {
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

/// How many operations of one rank, from a number on, are those of another from its number on.
int alike(const LaneMember& a, std::uint64_t from_a, const LaneMember& b, std::uint64_t from_b) {
  for (int count = 0;; ++count) {
    const FlightOperation* one = a.at(from_a++);
    const FlightOperation* other = b.at(from_b++);
    if (one == nullptr || other == nullptr || !one->agrees_with(*other)) return count;
  }
}

/// Whether `side` is the others' sequence shifted by one; may be empty. An alternating sequence looks shifted
/// both ways: the one that goes further counts.
std::string shift(const FlightLane& lane, const Side& side, const Side& others, std::uint64_t number) {
  const int more = alike(*side.longest, number + 1, *others.longest, number);
  const int fewer = alike(*side.longest, number, *others.longest, number + 1);
  if (more == 0 && fewer == 0) return {};
  const std::string who = ranks_text(side.ranks) + (side.ranks.size() > 1 ? " each" : "");
  const std::string whom = others.ranks.size() == 1 ? ranks_text(others.ranks) : "the others";
  const std::string too_many = text("one operation more than ", whom, ": ", lane.text(*side.operation));
  const FlightOperation* before = others.longest->at(number - 1);
  const bool alike_before = before != nullptr && before->agrees_with(*others.operation);
  const std::string left_out =
      text("one operation less than ", whom, ": left out is ", lane.text(*others.operation),
           alike_before ? " or one like it right before" : "");
  if (more == fewer) return text(who, " issued ", too_many, "; or ", left_out);
  return text(who, " issued ", more > fewer ? too_many : left_out);
}

bool knows_before(const FlightLane& lane, std::uint64_t number) {
  return number == 1 || std::ranges::count_if(lane.members, [&](const LaneMember& member) {
                          return member.at(number - 1) != nullptr;
                        }) > 1;
}

std::optional<std::int64_t> first_issue(const FlightLane& lane, std::uint64_t number) {
  std::optional<std::int64_t> first;
  for (const LaneMember& member : lane.members) {
    const FlightOperation* one = member.at(number);
    if (one == nullptr || one->issued_ns == 0) continue;
    const std::int64_t at = member.record->wall(one->issued_ns);
    first = std::min(first.value_or(at), at);
  }
  return first;
}

}  // namespace

std::optional<Divergence> divergence_on(const FlightLane& lane) {
  const std::optional<std::uint64_t> number = lowest_difference(lane);
  if (!number) return std::nullopt;
  const std::vector<Side> sides = sides_at(lane, *number);
  const bool tie = sides[0].ranks.size() == sides[1].ranks.size();
  Finding finding{.cause = "rank-diverged", .confidence = tie ? 0.6 : 0.95};
  std::vector<int> diverged;
  for (std::size_t i = tie ? 0 : 1; i < sides.size(); ++i)
    diverged.insert(diverged.end(), sides[i].ranks.begin(), sides[i].ranks.end());
  std::ranges::sort(diverged);
  for (const Side& side : sides) {
    finding.evidence.push_back(
        {side.longest->record->file, 0,
         text(ranks_text(side.ranks), " issued ", lane.text(*side.operation), " on ", lane.text())});
  }
  std::string shifted;
  for (std::size_t i = 1; i < sides.size(); ++i) {
    const std::string one = shift(lane, sides[i], sides[0], *number);
    if (one.empty()) continue;
    if (shifted.empty()) shifted = one;
    finding.evidence.push_back({sides[i].longest->record->file, 0, one});
  }
  if (!knows_before(lane, *number)) {
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
  finding.verdict = text(who, tie ? " parted" : " diverged", " at #", *number, " of ", lane.text(),
                         tie ? ", a tie: none is the majority" : "", shifted.empty() ? "" : "; ", shifted);
  finding.fix =
      text("issue the same operations in the same order on every rank: see what ", ranks_text(diverged), " ",
           diverged.size() == 1 ? "does" : "do", " differently before #", *number,
           " (a branch on the rank, another number of batches, a parameter without gradient)");
  return Divergence{std::move(finding), first_issue(lane, *number)};
}

}  // namespace weft::report
