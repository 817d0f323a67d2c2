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
//   ... submit; a task that finds NaN in the sums calls found_bad() ...
//   verdict.submitted(wire);
//
// The thread that submits calls settle() and submitted(); any calls found_bad().

#include <atomic>
#include <vector>

#include "weft/core/stream.hpp"

namespace weft::detail {

class StepVerdict {
 public:
  /// Waits until what the step before submitted has run. That is over where a stream of compute has waited
  /// for it, as before an optimizer's step; else the host waits here.
  /// @returns whether there was a step and what it wrote counts. @throws what its streams threw
  bool settle();
  /// After all work of a bucket.
  void submitted(const Stream& wire) { done_.push_back(wire.record()); }
  void found_bad() { is_bad_.store(true, std::memory_order_relaxed); }

 private:
  std::vector<Event> done_;  // of the step that runs
  std::atomic<bool> is_bad_ = false;
};

}  // namespace weft::detail
