#pragma once
// The activations that each device holds: by the order of its row, as verify() counts them.

#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

class HeldMemory {
 public:
  HeldMemory(const Schedule& schedule, const Problem& problem);

  /// The device has come to this entry.
  void at(int device, const Action& action);
  Bytes peak(int device) const { return peak_[static_cast<std::size_t>(device)]; }

 private:
  std::size_t cell(const Action& action) const {
    return static_cast<std::size_t>(action.stage) * microbatches_ +
           static_cast<std::size_t>(action.microbatch);
  }
  void take(int device, Bytes bytes);

  const Problem& problem_;
  std::size_t microbatches_;
  std::vector<Bytes> held_, peak_;
  std::vector<char> recomputed_;  // by stage and microbatch: its forward holds nothing; empty: none is
  std::vector<char> given_back_;  // the same: its input gradient is through; empty: nothing is copied
};

/// The most that each device holds at once while it goes through its row.
std::vector<Bytes> peaks(const Schedule& schedule, const Problem& problem);

}  // namespace weft::pipeline::detail
