#pragma once
// Decides whether what a step wrote into a hook's state counts: it does not if any rank had NaN or Inf.
//
// A hook with state keeps it twice: a step reads one copy and writes the other. Each bucket is checked when
// its sums arrive, by values that are the same on every rank. The state can only be taken over as a whole,
// after the last bucket was checked, so the hook does that before the next step's first bucket.
//
//   if (&bucket is the plan's first) {
//     if (guard.finish_step()) swap the copies, count the step;
//   }
//   ... submit; a task that finds NaN in the sums calls found_non_finite(), a kernel writes 1 to flag() ...
//   guard.submitted(wire);
//
// The flag lies in host memory that the device can write. It crosses the bus only when a step is bad; several
// streams may write it, and it is never copied. The thread that submits calls finish_step() and submitted();
// any thread may call found_non_finite().

#include <cstdint>

#include "weft/core/buffer.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

class NonFiniteGuard {
 public:
  /// @param device whose kernels may write the flag. @throws Error (system) when it has no memory for that
  explicit NonFiniteGuard(Device device = {});

  /// Waits until everything that the previous step submitted has run. The host does not block where a compute
  /// stream has already waited for it, as it has before an optimizer's step.
  /// @returns true if there was a step and what it wrote counts. @throws what its streams threw
  bool finish_step();
  /// Call it after all work of a bucket was submitted.
  void submitted(const Stream& wire) { done_.push_back(wire.record()); }
  void found_non_finite();
  /// For kernels: a value other than zero says that the step does not count.
  std::int32_t* flag() { return static_cast<std::int32_t*>(flag_.view().data()); }

 private:
  RecycledVector<Event> done_;  // events of the step under way
  Buffer flag_;
};

}  // namespace weft::detail
