#pragma once
// How elements of several ranks become one.
//
// Reductions run in rank order, ((r0 + r1) + r2) + ..., whatever the size of the message and the number of
// slices, so that every rank holds bitwise the same result (but for ReductionOrder::any, between nodes). f16
// and bf16 are reduced in float and rounded once; over nodes with several ranks, each node's sum is rounded
// too. `avg` is that sum divided by the number of ranks, once, in the type the sum is taken in, on every
// backend and over every layout of nodes; integers round towards zero. Its sum may be larger than f16 holds,
// the mean is not. `band`, `bor` and `bxor` take the bits of integers; NCCL has none of them. A truth value
// is a u8 of 0 or 1: `max` is its or, `min` its and.

#include <cstdint>
#include <ostream>

namespace weft {

enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg, band, bor, bxor };

/// The last of the enumeration, for values that come from outside.
inline constexpr ReduceOp last_reduce_op = ReduceOp::bxor;

/// Whether it takes the bits of integers.
constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

constexpr const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::prod:
      return "prod";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::band:
      return "band";
    case ReduceOp::bor:
      return "bor";
    case ReduceOp::bxor:
      return "bxor";
  }
  return "unknown";
}

inline std::ostream& operator<<(std::ostream& out, ReduceOp op) {
  return out << name(op);
}

}  // namespace weft
