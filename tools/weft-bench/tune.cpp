#include "tune.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>

namespace weft::bench {
namespace {

constexpr std::array orders{ReductionOrder::rank, ReductionOrder::any};
// A smaller gain may be chance.
constexpr double swing = 1.03;

struct Timed {
  Algorithm algorithm;
  double seconds;
};

std::optional<double> seconds_of(const Result& result, Algorithm algorithm) {
  for (const Against& one : result.against) {
    if (one.name == name(algorithm)) return one.time.median_seconds;
  }
  return std::nullopt;
}

std::optional<Timed> fastest(const Result& result, ReductionOrder order) {
  std::optional<Timed> best;
  const Collective kind = collective_of(result.which.op).value();
  for (const Algorithm algorithm : algorithms_for(kind)) {
    if (order == ReductionOrder::rank && reduces(kind) && !keeps_rank_order(algorithm)) continue;
    const auto seconds = seconds_of(result, algorithm);
    if (seconds && (!best || *seconds < best->seconds)) best = {algorithm, *seconds};
  }
  return best;
}

/// The rows of one collective and order.
std::vector<AlgorithmTable::Row> rows_of(std::vector<Result> results, ReductionOrder order) {
  std::ranges::sort(results, {}, [](const Result& one) { return one.which.bytes(); });
  std::vector<AlgorithmTable::Row> rows;
  for (const Result& result : results) {
    const auto best = fastest(result, order);
    if (!best) continue;
    if (!rows.empty()) {
      const auto before = seconds_of(result, rows.back().algorithm);
      if (before && *before <= best->seconds * swing) continue;
    }
    rows.push_back({order, *collective_of(result.which.op), result.which.ranks,
                    rows.empty() ? 0 : static_cast<std::uint64_t>(result.which.bytes()), best->algorithm});
  }
  return rows;
}

}  // namespace

std::vector<Algorithm> algorithms_for(Collective kind) {
  std::vector<Algorithm> result;
  for (std::size_t i = 0; i < algorithm_names.size(); ++i) {
    if (carries_out(static_cast<Algorithm>(i), kind)) result.push_back(static_cast<Algorithm>(i));
  }
  return result;
}

AlgorithmTable tuned(const std::vector<Result>& results) {
  AlgorithmTable table;
  for (const Operation& operation : operations()) {
    if (!operation.kind) continue;
    std::vector<Result> of_op;
    for (const Result& one : results) {
      if (one.which.op == operation.op) of_op.push_back(one);
    }
    if (of_op.empty()) continue;
    for (const ReductionOrder order : orders) {
      // Without a sum the order does not matter, and the rows for rank order serve any order.
      if (order == ReductionOrder::any && !operation.reduces) continue;
      for (const AlgorithmTable::Row& row : rows_of(of_op, order)) table.add(row);
    }
  }
  return table;
}

void print_tuned(std::ostream& out, const Result& result) {
  char words[64];
  out << name(result.which.op) << ' ' << result.which.bytes() << " B (us):";
  for (const Against& one : result.against) {
    std::snprintf(words, sizeof(words), " %s %.1f", one.name.c_str(), one.time.median_seconds * 1e6);
    out << words;
  }
  const auto kept = fastest(result, ReductionOrder::rank);
  const auto any = fastest(result, ReductionOrder::any);
  if (kept) out << "; fastest: " << name(kept->algorithm);
  if (any && reduces(result.which.op)) out << ", in any order " << name(any->algorithm);
  out << '\n' << std::flush;
}

}  // namespace weft::bench
