#pragma once
// An optimizer's step in one pass over memory: it scales gradients, updates moments and masters, and writes
// 16-bit parameters. It reads each value once and writes it once.
//
// The result is bitwise the same however a tensor is cut into slices, wherever a slice begins, whichever
// instructions run, and whether the host or a CUDA device runs them. The bits of a NaN may differ.
//
// Bytes moved for each parameter by AdamW with 16-bit gradients and parameters: 28 with an f32 master (2 + 2
// and 3 x 8), 26 with a split master (2 + 2 x 2 + 2 x 2 + 2 x 8).

#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"
#include "zero/plan/step_factors.hpp"

namespace weft::detail {

/// How the exact (f32) value of a parameter is kept.
enum class Master : std::uint8_t {
  none,   ///< the parameter itself is f32
  f32,    ///< in an f32 array, beside the bf16 or f16 that the model computes with
  split,  ///< its bits are (bf16 parameter << 16) + a signed 16-bit lower half: 4 bytes instead of 6. The
          ///< parameter is the bf16 nearest to the master; of two, the one farther from zero
};

/// A range of elements of all arrays: the same number of each, on one device, without overlap.
struct StepSlice {
  ConstView gradient;  ///< f32, bf16 or f16
  View parameters;     ///< f32, bf16 or f16
  View master{};       ///< Master::f32: f32; split: the lower halves, as bits of type bf16; none: empty
  View first{};        ///< first moments, f32; empty if the rule keeps none
  View second{};       ///< second moments, f32; empty if the rule keeps none
  Master kept = Master::none;
};

/// One step of all elements, in the order of `stream` and on its device; parameters of f64 take wide_step().
/// The memory must stay valid until the stream has passed.
/// @throws Error (usage) naming types, lengths or devices that do not fit each other
void fused_step(const StepSlice& slice, const StepFactors& factors, Stream stream);

namespace on_host {
/// The same step on the host, in this thread; done when it returns.
void fused_step(const StepSlice& slice, const StepFactors& factors);
}  // namespace on_host

/// A step in f64 throughout, on the host: the reference for the other types, and the step of a training in
/// f64. Plain loops with exact roots and quotients. @throws Error (usage) unless all arrays are f64 on the
/// host
void wide_step(const StepSlice& slice, const StepFactors& factors);

}  // namespace weft::detail
