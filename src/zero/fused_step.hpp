#pragma once
// One pass over memory for an optimizer's step: gradients are scaled, moments and master parameters are
// brought on, and 16-bit parameters are written, each value read once and written once.
//
// Bits are the same however a tensor is cut into slices, where a slice begins, which instructions run and
// whether the host or a CUDA device does it; NaN is NaN, of whichever bits.
//
// Bytes moved for a parameter by AdamW with 16-bit gradients and parameters: 28 with an f32 master (2 + 2 and
// 3 x 8), 26 with a split one (2 + 2 x 2 + 2 x 2 + 2 x 8).

#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"
#include "zero/step_factors.hpp"

namespace weft::detail {

/// How a parameter is kept exactly.
enum class Master : std::uint8_t {
  none,   ///< it is f32 itself
  f32,    ///< in f32, beside the bf16 or f16 that the model computes with
  split,  ///< its bits are (bf16 parameter << 16) + a signed 16-bit low half: 4 bytes instead of 6. The
          ///< parameter is the master's nearest bf16; halfway, the one farther from zero
};

/// Some elements of all arrays: equally many of each, on one device, none overlapping another.
struct StepSlice {
  ConstView gradient;  ///< f32, bf16 or f16
  View parameters;     ///< f32, bf16 or f16
  View master{};  ///< Master::f32: f32; split: the low halves, bf16, of which only the bits count; or empty
  View first{};   ///< f32; empty where the rule keeps fewer moments
  View second{};  ///< f32; so, too
  Master kept = Master::none;
};

/// One step of all elements, in the order of `stream`, on its device; f64 by wide_step(). The views stay
/// until it has passed.
/// @throws Error (usage) when types, lengths or devices do not fit each other, naming them
void fused_step(const StepSlice& slice, const StepFactors& factors, Stream stream);

namespace on_host {
/// The kernels' twin, now and in this thread.
void fused_step(const StepSlice& slice, const StepFactors& factors);
}  // namespace on_host

}  // namespace weft::detail
