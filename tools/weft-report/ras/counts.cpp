#include "weft-report/ras/counts.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "weft-report/flight/timelines.hpp"

namespace weft::report::ras {
namespace {

using Counts = std::vector<std::uint64_t>;
/// Ranks that have launched the same.
using Level = std::pair<Counts, std::vector<int>>;

std::uint64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

/// Whether one may be what the other is a little later.
bool comparable(const Counts& a, const Counts& b) {
  const auto not_above = [](const Counts& low, const Counts& high) {
    return std::ranges::equal(low, high, std::ranges::less_equal());
  };
  return not_above(a, b) || not_above(b, a);
}

/// Ranks of which the answer has nothing but that they gave none, or are not in the communicator.
std::set<int> without_counts(const Communicator& communicator, int& unnamed) {
  std::set<int> ranks;
  const auto add = [&](const Share& who) {
    for (const Member& one : who.named) ranks.insert(one.rank);
    unnamed += std::max(0, who.size - static_cast<int>(who.named.size()));
  };
  add(communicator.unanswered);
  for (const Standing& one : communicator.statuses) {
    if (one.status == Status::no_communicator) add(one.who);
  }
  return ranks;
}

/// Every rank with its count of a type. Empty: the answer does not name enough of them.
std::map<int, std::uint64_t> counts_of(const Collective& collective, int size, const std::set<int>& without) {
  std::map<int, std::uint64_t> counts;
  const Launched* nameless = nullptr;
  for (const Launched& one : collective.levels) {
    for (const Member& member : one.who.named) counts[member.rank] = one.operations;
    if (static_cast<int>(one.who.named.size()) >= one.who.size) continue;
    if (nameless != nullptr || !one.who.named.empty()) return {};
    nameless = &one;
  }
  if (nameless == nullptr) return counts;
  int given = 0;
  constexpr int most = 1 << 20;  // of a size that a text may state
  if (size > most) return {};
  for (int rank = 0; rank < size; ++rank) {
    if (without.contains(rank) || counts.contains(rank)) continue;
    counts[rank] = nameless->operations;
    ++given;
  }
  if (given != nameless->who.size) return {};
  return counts;
}

std::vector<Level> levels_of(const RankCounts& ranks) {
  std::map<Counts, std::vector<int>> by;
  for (const auto& [rank, counts] : ranks) by[counts].push_back(rank);
  std::vector<Level> levels(by.begin(), by.end());
  std::ranges::stable_sort(levels, {}, [](const Level& one) { return total(one.first); });
  return levels;
}

/// Where the largest step between neighbours is: the index of the first above it. The lowest of several.
template <class Value>
std::size_t largest_step(const std::vector<Value>& rising) {
  std::size_t above = 1;
  for (std::size_t i = 2; i < rising.size(); ++i) {
    if (rising[i] - rising[i - 1] > rising[above] - rising[above - 1]) above = i;
  }
  return above;
}

/// "AllReduce: 30 ranks have launched 640, ranks 12, 13 have launched 641"
std::string told(const Collective& collective) {
  std::vector<const Launched*> levels;
  for (const Launched& one : collective.levels) levels.push_back(&one);
  std::ranges::stable_sort(levels, {}, [](const Launched* one) { return one->operations; });
  std::string line = collective.type + ":";
  constexpr std::size_t most = 6;
  for (std::size_t i = 0; i < std::min(levels.size(), most); ++i) {
    const Share& who = levels[i]->who;
    std::vector<int> ranks;
    for (const Member& member : who.named) ranks.push_back(member.rank);
    std::ranges::sort(ranks);
    const bool all = static_cast<int>(ranks.size()) >= who.size;
    line += text(i == 0 ? " " : ", ", all ? ranks_text(ranks) : text(who.size, " ranks"),
                 who.size == 1 ? " has" : " have", " launched ", levels[i]->operations);
  }
  if (levels.size() > most) line += text(", and ", levels.size() - most, " more counts");
  return line;
}

void tell(const Communicator& communicator, const std::string& file, Behind& behind) {
  for (const Collective& one : communicator.collectives) {
    if (one.levels.size() > 1) behind.evidence.push_back({file, one.levels.front().who.line, told(one)});
  }
}

/// Levels of which each may become the next.
Behind behind_of_sequence(const std::vector<Level>& levels) {
  std::vector<std::uint64_t> totals;
  for (const Level& one : levels) totals.push_back(total(one.first));
  const std::size_t above = largest_step(totals);
  Behind behind{.gap = totals[above] - totals[above - 1]};
  for (std::size_t i = 0; i < above; ++i)
    behind.ranks.insert(behind.ranks.end(), levels[i].second.begin(), levels[i].second.end());
  std::ranges::sort(behind.ranks);
  return behind;
}

/// Those that differ from most; where no more than half are alike, all that cannot be one sequence.
Behind others_than_most(const std::vector<Level>& levels) {
  const auto most = std::ranges::max_element(levels, {}, [](const Level& one) { return one.second.size(); });
  const auto as_many = std::ranges::count_if(
      levels, [&](const Level& one) { return one.second.size() == most->second.size(); });
  Behind behind{.other_operations = true};
  const auto add = [&](const Level& one, const Level& other) {
    behind.ranks.insert(behind.ranks.end(), one.second.begin(), one.second.end());
    for (std::size_t i = 0; i < one.first.size(); ++i) {
      const auto [low, high] = std::minmax(one.first[i], other.first[i]);
      behind.gap = std::max(behind.gap, high - low);
    }
  };
  for (const Level& one : levels) {
    if (as_many == 1) {
      if (!comparable(one.first, most->first)) add(one, *most);
      continue;
    }
    const auto against =
        std::ranges::find_if(levels, [&](const Level& other) { return !comparable(one.first, other.first); });
    if (against != levels.end()) add(one, *against);
  }
  if (behind.ranks.empty()) {  // most are between two that differ from each other
    for (const Level& one : levels) {
      if (&one != &*most) add(one, *most);
    }
  }
  std::ranges::sort(behind.ranks);
  return behind;
}

/// Where not every rank is known: the type with the largest step.
std::optional<Behind> behind_of_types(const Communicator& communicator) {
  std::optional<Behind> worst;
  for (const Collective& one : communicator.collectives) {
    std::map<std::uint64_t, std::vector<const Share*>> levels;
    for (const Launched& level : one.levels) levels[level.operations].push_back(&level.who);
    if (levels.size() < 2) continue;
    std::vector<std::uint64_t> values;
    for (const auto& level : levels) values.push_back(level.first);
    const std::size_t above = largest_step(values);
    Behind behind{.gap = values[above] - values[above - 1]};
    for (std::size_t i = 0; i < above; ++i) {
      for (const Share* who : levels[values[i]]) {
        for (const Member& member : who->named) behind.ranks.push_back(member.rank);
        behind.unnamed += std::max(0, who->size - static_cast<int>(who->named.size()));
      }
    }
    std::ranges::sort(behind.ranks);
    if (!worst || behind.gap > worst->gap) worst = std::move(behind);
  }
  return worst;
}

}  // namespace

RankCounts counts_of(const Communicator& communicator) {
  int unnamed = 0;
  const std::set<int> without = without_counts(communicator, unnamed);
  RankCounts ranks;
  for (std::size_t i = 0; i < communicator.collectives.size(); ++i) {
    const auto one = counts_of(communicator.collectives[i], unnamed > 0 ? 0 : communicator.size, without);
    if (one.empty() || (i > 0 && one.size() != ranks.size())) return {};
    for (const auto& [rank, count] : one) {
      ranks[rank].push_back(count);
      if (ranks[rank].size() != i + 1) return {};
    }
  }
  return ranks;
}

std::optional<Behind> behind_in(const Communicator& communicator, const std::string& file) {
  const std::vector<Level> levels = levels_of(counts_of(communicator));
  std::optional<Behind> behind;
  if (levels.empty()) {
    behind = behind_of_types(communicator);
  } else if (levels.size() > 1) {
    const bool sequence = std::ranges::adjacent_find(levels, [](const Level& a, const Level& b) {
                            return !comparable(a.first, b.first);
                          }) == levels.end();
    behind = sequence ? behind_of_sequence(levels) : others_than_most(levels);
  }
  if (behind) tell(communicator, file, *behind);
  return behind;
}

std::string names_of(const std::vector<int>& ranks, int unnamed) {
  if (ranks.empty())
    return text(unnamed, unnamed == 1 ? " rank" : " ranks", " that the answer does not name");
  const std::string named = ranks_text(ranks);
  return unnamed == 0 ? named : text(named, " and ", unnamed, " more");
}

}  // namespace weft::report::ras
