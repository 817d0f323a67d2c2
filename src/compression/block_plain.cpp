#include <cstring>

#include "compression/block_kernel.hpp"
#include "compression/plain_lanes.hpp"

#define WEFT_LANES plain_lanes
#define WEFT_LANES_ATTR
#define WEFT_LANES_F16 0
// clang-format off
#include "compression/block_numbers-inl.hpp"
#include "compression/block_loops-inl.hpp"
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
