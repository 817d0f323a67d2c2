#include "weft-report/inspector/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "weft-report/inspector/medians.hpp"

namespace weft::report::inspector {
namespace {

constexpr double least_share = 0.015;
constexpr double least_share_of_two = 0.03;
constexpr double rank_spreads = 5.5;
constexpr double steady = 0.75;      // of the blocks have the same sign
constexpr double most_named = 0.25;  // of the ranks
constexpr std::size_t most_blocks = 24;
constexpr std::size_t fewest_blocks = 4;  // after the beginning of what is named
constexpr std::size_t fewest_operations = 8;
constexpr float shortest_compared = 20;  // microseconds: they are written as whole ones

struct Ratio {
  float value = 0;  // log of time over the operation's median
  float weight = 0;
};

std::optional<double> weighted_middle(std::vector<Ratio>& ratios) {
  if (ratios.empty()) return std::nullopt;
  std::ranges::sort(ratios, {}, &Ratio::value);
  double sum = 0;
  for (const Ratio& one : ratios) sum += one.weight;
  double below = 0;
  for (const Ratio& one : ratios) {
    below += one.weight;
    if (below >= sum / 2) return one.value;
  }
  return ratios.back().value;
}

/// Which operations are compared, and where each block begins.
struct Plan {
  bool by_gpu =
      false;  // times of the GPUs' clocks alone, where there are any: others do not compare with them
  std::size_t fewest = 2;
  std::array<std::size_t, kinds> operations{};
  std::size_t blocks = 0;
};

template <class Visit>
void each_compared(const Communicator& one, const Plan& plan, Visit&& visit) {
  std::vector<Sample> kept;
  std::vector<double> times;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    if (!ends_together(static_cast<Kind>(kind))) continue;
    std::size_t index = 0;
    each_operation(one.operations[kind], [&](std::span<const Sample> samples) {
      kept.clear();
      times.clear();
      for (const Sample& sample : samples) {
        const bool again = !kept.empty() && kept.back().rank == sample.rank;
        if (again || (plan.by_gpu && !sample.by_gpu) || sample.size != samples.front().size ||
            sample.microseconds <= 0)
          continue;
        kept.push_back(sample);
        times.push_back(sample.microseconds);
      }
      if (kept.size() < plan.fewest) return;
      const double median = middle(times);
      if (median < shortest_compared) return;
      visit(static_cast<Kind>(kind), index++, std::span<const Sample>(kept), median);
    });
  }
}

Plan plan_of(const Communicator& one) {
  Plan plan;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    if (ends_together(static_cast<Kind>(kind)))
      plan.by_gpu = plan.by_gpu || std::ranges::any_of(one.operations[kind], &Sample::by_gpu);
  }
  plan.fewest = std::max<std::size_t>(2, (one.members.size() + 1) / 2);
  each_compared(one, plan, [&](Kind kind, std::size_t, auto, double) {
    ++plan.operations[static_cast<std::size_t>(kind)];
  });
  std::size_t all = 0;
  for (const std::size_t operations : plan.operations) all += operations;
  plan.blocks = all < fewest_operations ? 0 : std::min(most_blocks, all / 2);
  return plan;
}

/// The beginning of a block.
struct Start {
  Kind kind{};
  std::uint32_t number = 0;
  std::uint32_t when = 0;
  std::size_t operations = 0;  // of that kind; the most frequent one speaks for the block
};

struct Blocks {
  std::vector<std::vector<double>> ratios{};  // by member and block; NaN: it has none there
  std::vector<Start> starts{};
  std::vector<double> seconds{};  // that the operations of a block took
  std::vector<Compared> ranks{};
};

Blocks blocks_of(const Communicator& one, const Plan& plan) {
  const std::size_t members = one.members.size();
  std::vector<std::vector<std::vector<Ratio>>> all(members, std::vector<std::vector<Ratio>>(plan.blocks));
  Blocks blocks{.starts = std::vector<Start>(plan.blocks), .seconds = std::vector<double>(plan.blocks)};
  blocks.ranks.resize(members);
  for (std::uint32_t i = 0; i < members; ++i) blocks.ranks[i].member = i;
  each_compared(one, plan, [&](Kind kind, std::size_t index, std::span<const Sample> samples, double median) {
    const std::size_t of_kind = plan.operations[static_cast<std::size_t>(kind)];
    const std::size_t block = index * plan.blocks / of_kind;
    Start& start = blocks.starts[block];
    if (of_kind > start.operations) start = {kind, samples.front().number, samples.front().when, of_kind};
    blocks.seconds[block] += median / 1e6;
    float shortest = samples.front().microseconds;
    for (const Sample& sample : samples) {
      shortest = std::min(shortest, sample.microseconds);
      all[sample.rank][block].push_back(
          {static_cast<float>(std::log(sample.microseconds / median)), static_cast<float>(median)});
    }
    for (const Sample& sample : samples) {
      Compared& rank = blocks.ranks[sample.rank];
      ++rank.operations;
      if (sample.microseconds <= shortest) rank.shortest += 1;
    }
  });
  for (auto& of_rank : all) {
    std::vector<double> row;
    for (auto& ratios : of_rank) row.push_back(weighted_middle(ratios).value_or(std::nan("")));
    blocks.ratios.push_back(std::move(row));
  }
  for (Compared& rank : blocks.ranks)
    rank.shortest /= static_cast<double>(std::max<std::uint64_t>(rank.operations, 1));
  return blocks;
}

/// The ranks' medians of the blocks from `begin` on.
struct From {
  std::vector<double> shares{};  // less the ranks' median; NaN: the rank has too few blocks
  double least = 0;              // from which on a share stands out
};

std::vector<double> known_from(const std::vector<double>& row, std::size_t begin) {
  std::vector<double> known;
  for (std::size_t block = begin; block < row.size(); ++block) {
    if (!std::isnan(row[block])) known.push_back(row[block]);
  }
  return known;
}

From from_block(const Blocks& blocks, std::size_t begin, std::size_t count) {
  From from;
  std::vector<double> medians;
  std::vector<double> within;  // what blocks of one rank differ by
  for (const auto& row : blocks.ratios) {
    const std::vector<double> known = known_from(row, begin);
    if (known.size() < std::min(fewest_blocks, count - begin)) {
      from.shares.push_back(std::nan(""));
      continue;
    }
    const double own = middle(known);
    for (const double value : known) within.push_back(value - own);
    from.shares.push_back(own);
    medians.push_back(own);
  }
  const double centre = middle(medians);
  for (double& share : from.shares) share -= centre;
  const double error = 1.2533 * spread(within) / std::sqrt(static_cast<double>(count - begin));
  const bool two = medians.size() < 3;
  from.least = std::max({two ? least_share_of_two / 2 : least_share, rank_spreads * error,
                         two ? 0.0 : rank_spreads * spread(medians)});
  return from;
}

bool is_steady(const std::vector<double>& row, std::size_t begin, double share) {
  const std::vector<double> known = known_from(row, begin);
  const auto same = std::ranges::count_if(known, [&](double value) { return value * share > 0; });
  return static_cast<double>(same) >= steady * static_cast<double>(known.size());
}

/// The block from which on `share` says the most of a rank's ratios, and nothing before it: with one block in four against it, `begin` may be
/// too early.
std::size_t likely_begin(const std::vector<double>& row, std::size_t begin, double share) {
  const auto unexplained = [&](std::size_t from) {
    double sum = 0;
    for (std::size_t block = 0; block < row.size(); ++block) {
      if (!std::isnan(row[block])) sum += std::abs(row[block] - (block < from ? 0 : share));
    }
    return sum;
  };
  std::size_t best = begin;
  for (std::size_t from = begin; from + fewest_blocks < row.size(); ++from) {
    if (unexplained(from) < unexplained(best)) best = from;
  }
  return best;
}

Straggler straggler_of(const Blocks& blocks, std::uint32_t member, std::size_t begin, double share) {
  begin = likely_begin(blocks.ratios[member], begin, share);
  const Start& start = blocks.starts[begin];
  Straggler one{.member = member,
                .share = std::expm1(share),
                .kind = start.kind,
                .since = start.number,
                .when = start.when,
                .from_the_start = begin == 0,
                .operations = blocks.ranks[member].operations};
  for (std::size_t block = begin; block < blocks.seconds.size(); ++block)
    one.seconds += std::abs(one.share) * blocks.seconds[block];
  return one;
}

}  // namespace

Comparison compare_ranks(const Communicator& one) {
  Comparison result;
  const Plan plan = plan_of(one);
  if (one.members.size() < 2 || plan.blocks == 0) return result;
  const Blocks blocks = blocks_of(one, plan);
  result.ranks = blocks.ranks;
  const From whole = from_block(blocks, 0, plan.blocks);
  for (Compared& rank : result.ranks) {
    const double share = whole.shares[rank.member];
    rank.share = std::isnan(share) ? 0 : std::expm1(share);
  }
  std::map<std::uint32_t, Straggler> named;
  const std::size_t last = plan.blocks > fewest_blocks ? plan.blocks - fewest_blocks : 0;
  for (std::size_t begin = 0; begin <= last; ++begin) {
    const From from = begin == 0 ? whole : from_block(blocks, begin, plan.blocks);
    std::vector<std::uint32_t> now;
    for (std::uint32_t member = 0; member < from.shares.size(); ++member) {
      const double share = from.shares[member];
      if (!std::isnan(share) && std::abs(share) >= from.least &&
          is_steady(blocks.ratios[member], begin, share))
        now.push_back(member);
    }
    const bool two = one.members.size() == 2;
    if (two) std::erase_if(now, [&](std::uint32_t member) { return from.shares[member] > 0; });
    const double most = two ? 1 : std::max(1.0, most_named * static_cast<double>(one.members.size()));
    if (static_cast<double>(now.size()) > most) continue;
    for (const std::uint32_t member : now)
      named.try_emplace(
          member, straggler_of(blocks, member, begin, two ? 2 * from.shares[member] : from.shares[member]));
  }
  for (const auto& [member, straggler] : named) result.stragglers.push_back(straggler);
  std::ranges::stable_sort(result.stragglers, std::ranges::greater{}, &Straggler::seconds);
  return result;
}

std::vector<double> plain_shares(const Communicator& one) {
  std::vector<std::vector<double>> ratios(one.members.size());
  const Plan plan = plan_of(one);
  each_compared(one, plan, [&](Kind, std::size_t, std::span<const Sample> samples, double median) {
    for (const Sample& sample : samples) ratios[sample.rank].push_back(sample.microseconds / median);
  });
  std::vector<double> shares;
  for (auto& of_rank : ratios) {
    std::ranges::sort(of_rank);
    shares.push_back(of_rank.empty() ? 1 : of_rank[of_rank.size() / 2]);
  }
  const double centre = middle(shares);
  for (double& share : shares) share = share / centre - 1;
  return shares;
}

}  // namespace weft::report::inspector
