#pragma once
// Data in which every element tells its rank and its index, in every data type; and the slow, obvious twin of
// a reduction.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/under_tsan.hpp"
#include "weft/collectives/reduce_op.hpp"
#include "weft/collectives/topology.hpp"
#include "weft/core/dtype.hpp"

namespace weft::test {

/// One of each width first.
inline const std::vector<DataType> all_types = few_under_tsan<DataType>(
    {DataType::f32, DataType::f64, DataType::f16, DataType::u8, DataType::bf16, DataType::i32, DataType::i64},
    4);
/// More than a staging area holds, so that staged operations take several rounds (of 128 KiB).
inline std::int64_t long_length = 100'003;
/// Nothing, less than a rank's share, a share and a bit, and some pages.
inline const std::vector<std::int64_t> few_lengths{0, 1, 65, 4099};
inline std::vector<std::int64_t> lengths = few_lengths;

/// Every length on three and on five ranks, which divide hardly any of them, and on three above the MiB from which
/// sums are written past the caches; few on others, which take turns on the cores, and under sanitizers, which
/// look at the way and not at every length.
inline void choose_lengths([[maybe_unused]] int ranks) {
  lengths = few_lengths;
  long_length = 100'003;
#if !defined(__SANITIZE_THREAD__) && !WEFT_ADDRESSES_ARE_WATCHED
  if (ranks == 3 || ranks == 5) lengths = {0, 1, 2, 3, 31, 64, 65, 1000, 4099};
  if (ranks == 3) long_length = 300'001;
#endif
}

/// For operations that move elements: a mix of rank and index, with as many bits as the type has.
template <class T>
T mark(int rank, std::int64_t i) {
  const auto bits = static_cast<std::uint64_t>(rank + 1) * 0x9e3779b97f4a7c15ULL ^
                    static_cast<std::uint64_t>(i) * 0xbf58476d1ce4e5b9ULL;
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

/// For reductions: a value of ordinary size whose sums round.
template <class T>
T ordinary(int rank, std::int64_t i) {
  const auto mix =
      (static_cast<std::uint64_t>(i) * 2654435761U + static_cast<std::uint64_t>(rank) * 40503U) % 1009;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(mix);
  } else {
    return static_cast<T>(static_cast<float>(mix) * 0.0137F - 5.0F);
  }
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// The ranks of each node.
inline std::vector<std::vector<int>> nodes_of(const Topology& topology) {
  std::vector<std::vector<int>> nodes;
  for (int node = 0; node < topology.nodes(); ++node) nodes.push_back(topology.ranks_of(node));
  return nodes;
}

template <class A>
A combined(A a, A b, ReduceOp op) {
  using Wide = std::conditional_t<std::is_integral_v<A>,
                                  std::make_unsigned_t<std::conditional_t<std::is_integral_v<A>, A, int>>, A>;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return static_cast<A>(static_cast<Wide>(a) + static_cast<Wide>(b));
    case ReduceOp::prod:
      return static_cast<A>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case ReduceOp::min:
      return b < a ? b : a;
    case ReduceOp::max:
      return b > a ? b : a;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      if constexpr (std::is_integral_v<A>)
        return static_cast<A>(op == ReduceOp::band ? a & b : op == ReduceOp::bor ? a | b : a ^ b);
  }
  return a;
}

/// One element of some ranks, in their order, in the type that sums are taken in, rounded once.
/// @param averaged what avg divides by
template <class T>
T reduced(const std::vector<int>& ranks, int averaged, std::int64_t i, ReduceOp op) {
  using A = Accumulate<T>;
  A result = static_cast<A>(ordinary<T>(ranks.front(), i));
  for (std::size_t r = 1; r < ranks.size(); ++r)
    result = combined(result, static_cast<A>(ordinary<T>(ranks[r], i)), op);
  if (op == ReduceOp::avg) result = static_cast<A>(result / static_cast<A>(averaged));
  return static_cast<T>(result);
}

/// The order of every sum: of each node first, and then of the nodes. A mean is divided at the end; one of integers is rounded once.
template <class T>
T reduced(const std::vector<std::vector<int>>& nodes, int averaged, std::int64_t i, ReduceOp op) {
  using A = Accumulate<T>;
  if (nodes.size() == 1 || (op == ReduceOp::avg && std::is_integral_v<T>)) {
    std::vector<int> all;
    for (const std::vector<int>& node : nodes) all.insert(all.end(), node.begin(), node.end());
    return reduced<T>(all, averaged, i, op);
  }
  const ReduceOp within = op == ReduceOp::avg ? ReduceOp::sum : op;
  A result = static_cast<A>(reduced<T>(nodes.front(), averaged, i, within));
  for (std::size_t n = 1; n < nodes.size(); ++n)
    result = combined(result, static_cast<A>(reduced<T>(nodes[n], averaged, i, within)), op);
  if (op == ReduceOp::avg) result = static_cast<A>(result / static_cast<A>(averaged));
  return static_cast<T>(result);
}

/// Whether `got` is `exact` but for the rounding of every step on the way, in whatever order.
template <class T>
bool near_reduction(const T& got, const T& exact, int ranks, std::int64_t i, ReduceOp op) {
  const auto wide = [](T value) { return static_cast<double>(static_cast<Accumulate<T>>(value)); };
  double scale = std::abs(wide(exact));
  if (op == ReduceOp::sum || op == ReduceOp::avg) {
    scale = 0;
    for (int rank = 0; rank < ranks; ++rank) scale += std::abs(wide(ordinary<T>(rank, i)));
    if (op == ReduceOp::avg) scale /= ranks;
  }
  constexpr double unit = std::is_same_v<T, double>     ? 0x1p-53
                          : std::is_same_v<T, float>    ? 0x1p-24
                          : std::is_same_v<T, BFloat16> ? 0x1p-8
                                                        : 0x1p-11;
  return std::abs(wide(got) - wide(exact)) <= 2 * ranks * unit * scale;  // both are rounded
}

}  // namespace weft::test
