// The loops of block codecs with vectors: Highway compiles this file once for every instruction set and picks
// one at run time.

#include "compression/codecs/block_kernel.hpp"

#include <cstring>

#include "core/base/simd_targets.hpp"

#define HWY_DISABLED_TARGETS WEFT_SIMD_LEFT_OUT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/codecs/block_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
}  // namespace weft::detail::HWY_NAMESPACE

#undef WEFT_LANES
#undef WEFT_LANES_ATTR
#undef WEFT_LANES_F16
#undef WEFT_LANES_ONE
#define WEFT_LANES_ONE 0
#define WEFT_LANES HWY_NAMESPACE
#define WEFT_LANES_ATTR HWY_ATTR
// The hardware's conversion to binary16 gives the bits of the plain loops for all finite values. Highway's
// emulation of it may not, so it is not used.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define WEFT_LANES_F16 1
#else
#define WEFT_LANES_F16 0
#endif
// clang-format off
#include "compression/codecs/block_numbers-inl.hpp"
#include "compression/codecs/block_lanes-inl.hpp"
#include "compression/codecs/four_bit_loops-inl.hpp"
#include "compression/codecs/block_loops-inl.hpp"
// clang-format on
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::detail {

HWY_EXPORT(encode);
HWY_EXPORT(decode);
HWY_EXPORT(largest);

const BlockKernel& block_kernel() {
  static constexpr BlockKernel kernel{
      [](BlockFormat format, Rounding rounding, std::byte* encoded, const float* values, std::int64_t count,
         RandomKey random) {
        HWY_DYNAMIC_DISPATCH(encode)
        (format, rounding, encoded, values, count, random);
      },
      [](BlockFormat format, Into into, float* values, const std::byte* encoded, std::int64_t count) {
        HWY_DYNAMIC_DISPATCH(decode)(format, into, values, encoded, count);
      },
      [](const float* values, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(largest)(values, count); }};
  return kernel;
}

}  // namespace weft::detail
#endif
