#pragma once
// The loops of block codes, with the widest instructions this machine has, or plain: bit by bit the same.

#include "compression/block_format.hpp"

namespace weft::detail {

struct BlockKernel {
  /// @param chance what stochastic rounding takes its numbers from
  void (*encode)(BlockFormat format, Rounding rounding, std::byte* code, const float* values,
                 std::int64_t count, Chance chance);
  void (*decode)(BlockFormat format, Into into, float* values, const std::byte* code, std::int64_t count);
  /// Bits of the largest magnitude; more than those of infinity where there is NaN.
  std::uint32_t (*largest)(const float* values, std::int64_t count);
};

const BlockKernel& block_kernel();
/// For machines without Highway, and to compare with.
const BlockKernel& plain_block_kernel();

}  // namespace weft::detail
