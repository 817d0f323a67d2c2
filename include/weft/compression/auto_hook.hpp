#pragma once
// A hook that measures first and then chooses how gradients travel.
//
//   const auto hook = auto_hook({.rank = 4});
//   GradientReducer reducer(comm, layout, {.hook = hook});        // measures wire and codecs: a moment
//   ... training ...
//   if (hook->choice()) std::cout << *hook->choice();             // what it chose, and why
//
// The steps:
// 1. When the reducer is made, all ranks together time an all_reduce of few and of many bytes, and each times
//    its codecs: on a device by its kernels, in up to 300 MB of its memory that are free again afterwards.
// 2. The first steps reduce gradients exactly, while the hook records when buckets are ready and how long a
//    step takes.
// 3. In one step, ranks agree on the slowest rank's figures; each then chooses from them (choose_codecs).
// 4. In one step, ranks compare what they chose. From then on gradients travel that way, with PowerSGD from
//    `start_step` on. Rank 0 logs the choice and its reasons at level info.
// A step with NaN or Inf does not count, as with any other hook.
//
// Wire and codecs are measured while no rank computes. With a wire stream that has a thread of its own, the
// observed steps show how much slower the wire is beside computation, and compression is assumed to slow down
// by the same factor. The time that both take from computation, on shared cores or on a device, is not
// predicted.
//
// The choice depends on measured times. Two runs may choose differently, and then differ in the last bits or
// more. For runs that must be repeated bit by bit, name the hook that was chosen (hook_named).
//
// One hook serves one reducer, of f32 gradients in host or device memory. WRONG: comparing step times from the first
// step on; nothing is compressed before settled().

#include <memory>
#include <optional>

#include "weft/compression/codec_choice.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {

class AutoHook : public CommHook {
 public:
  /// Steps that count before gradients travel as chosen: one to warm up, four that are observed, one to agree
  /// on figures, and one to compare the choice.
  static constexpr std::int64_t steps_before = 7;

  /// Empty until gradients travel as chosen. The same on all ranks. Call it from the thread that steps.
  virtual const std::optional<CodecChoice>& choice() const = 0;
  /// The figures that the choice was made from.
  virtual const std::optional<StepProfile>& profile() const = 0;
};

/// @throws Error (usage) for a rank below 1, a gain outside of [0, 1), a negative start step. When the
/// reducer is made: (usage) unless gradients are f32; (system) when the device has no memory to measure in. In a
/// step: (mismatch) on all ranks when they chose differently
std::shared_ptr<AutoHook> auto_hook(AutoOptions options = {});

}  // namespace weft
