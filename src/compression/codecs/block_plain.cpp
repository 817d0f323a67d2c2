// The loops of block codecs without vectors: the -inl files are compiled on vectors of one lane.
//
// Builds without Highway run these loops; tests compare the vector loops with them, bit by bit.

#include "compression/codecs/block_kernel.hpp"

#define WEFT_LANES plain_lanes
#define WEFT_LANES_ATTR
#define WEFT_LANES_F16 0
#define WEFT_LANES_ONE 1
#define WEFT_LANES_SUM(a, b) ((a) + (b))
#define WEFT_LANES_PRODUCT(a, b) ((a) * (b))
// clang-format off
#include "compression/codecs/one_lane-inl.hpp"
#include "compression/codecs/block_numbers-inl.hpp"
#include "compression/codecs/block_lanes-inl.hpp"
#include "compression/codecs/four_bit_loops-inl.hpp"
#include "compression/codecs/block_loops-inl.hpp"
// clang-format on

namespace weft::detail {

const BlockKernel& plain_block_kernel() {
  static constexpr BlockKernel kernel{plain_lanes::encode, plain_lanes::decode, plain_lanes::largest};
  return kernel;
}

#if !WEFT_HAS_HIGHWAY
const BlockKernel& block_kernel() {
  return plain_block_kernel();
}
#endif

}  // namespace weft::detail
