#pragma once
// Whether what a step wrote into a hook's state counts: not if any rank brought NaN or Inf.
//
// A hook with state keeps it twice, and writes the one that it does not read. Buckets are judged one by one,
// as their sums arrive, and by values that are the same on every rank; the state can only be taken over as a
// whole, when the last has been. So that is put off to the next step's first bucket.
//
//   if (&bucket is the plan's first) {
//     if (verdict.settle()) change places of read and written state, count the step;
//   }
//   ... submit; a task that finds NaN in the sums calls found_bad(), a kernel writes 1 to bad() ...
//   verdict.submitted(wire);
//
// The word lies where kernels of the device write it and the host reads it: it crosses the bus only when a
// step is bad, whichever of several streams finds out, and nobody has to copy it. The thread that submits
// calls settle() and submitted(); any calls found_bad().

#include <cstdint>

#include "weft/core/buffer.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

class StepVerdict {
 public:
  /// @param device whose kernels may find something bad. @throws Error (system) when it has no memory for
  /// that
  explicit StepVerdict(Device device = {});

  /// Waits until what the step before submitted has run. That is over where a stream of compute has waited
  /// for it, as before an optimizer's step; else the host waits here.
  /// @returns whether there was a step and what it wrote counts. @throws what its streams threw
  bool settle();
  /// After all work of a bucket.
  void submitted(const Stream& wire) { done_.push_back(wire.record()); }
  void found_bad();
  /// For kernels: not zero says that something is bad.
  std::int32_t* bad() { return static_cast<std::int32_t*>(bad_.view().data()); }

 private:
  RecycledVector<Event> done_;  // of the step that runs
  Buffer bad_;
};

}  // namespace weft::detail
