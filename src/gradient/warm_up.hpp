#pragma once
// The first two steps of a kind, after which later ones find all the memory for tasks and events that they
// may need at once.

#include "weft/core/recycled.hpp"

namespace weft::detail {

class WarmUp {
 public:
  /// An exchanged step has been submitted. @returns whether that was the last to look at
  bool end_step() {
    if (++steps_ < 2) return false;
    taken_.reserve();
    return true;
  }

 private:
  int steps_ = 0;
  RecycledCount taken_;
};

}  // namespace weft::detail
