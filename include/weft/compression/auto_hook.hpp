#pragma once
// A hook that measures first and then chooses how gradients travel.
//
//   const auto hook = auto_hook({.rank = 4});
//   GradientReducer reducer(comm, layout, {.hook = hook});        // measures wire and kernels: a moment
//   ... training ...
//   if (hook->choice()) std::cout << *hook->choice();             // what it chose, and why
//
// When the reducer is made, ranks measure together what an all_reduce of few and of many bytes takes, and how
// fast this machine codes. The first steps reduce gradients as they are, exactly, while the hook sees when
// buckets are ready and how long steps take. Then every rank's figures become those of the slowest, the same
// on all (choose_codecs); two steps later ranks have compared what they chose, and from then on gradients
// travel so, with PowerSGD from `start_step` on. Rank 0 says what and why at log level info. A step with NaN
// or Inf counts as if it had never been, as for any other hook.
//
// Wire and kernels are measured while no rank computes. Where a thread carries buckets, observed steps show
// how much slower the wire is beside computation, and coding is taken to slow down alike; what both take from
// computation on shared cores is in no prediction.
// Choices are by measured times: two runs may choose otherwise, and then train otherwise in the last bits or
// more. For runs that are to be repeated bit by bit take the hook that was chosen by its name (hook_named).
//
// One hook serves one reducer, of f32 gradients in host memory. WRONG: comparing step times from the first
// step on; before settled() nothing is compressed.

#include <memory>
#include <optional>

#include "weft/compression/codec_choice.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {

class AutoHook : public CommHook {
 public:
  /// Steps that count until gradients travel as chosen, where none brings NaN: one when nothing is warm, four
  /// that are looked at, one to agree on figures, and one to compare the choice.
  static constexpr std::int64_t steps_before = 7;

  /// None until gradients travel as chosen. The same on all ranks. For the thread that steps.
  virtual const std::optional<CodecChoice>& choice() const = 0;
  /// What it was chosen from.
  virtual const std::optional<StepProfile>& profile() const = 0;
};

/// @throws Error (usage) for a rank below 1, a gain outside of [0, 1), a negative start. When the reducer is
/// made: (usage) unless gradients are f32 in host memory. In a step: (mismatch) on all ranks when they chose
/// apart
std::shared_ptr<AutoHook> auto_hook(AutoOptions options = {});

}  // namespace weft
