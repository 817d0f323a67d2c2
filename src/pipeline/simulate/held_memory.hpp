#pragma once
// The bytes of activations that each device holds, entry by entry of its row: as verify() counts them, by
// code of its own.

#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

class HeldMemory {
 public:
  HeldMemory(const Schedule& schedule, const Problem& problem);

  /// The device executes this entry.
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
  // By stage and microbatch: whether its forward holds nothing; empty: nowhere.
  std::vector<char> recomputed_;
  std::vector<char> given_back_;  // the same: whether I has run; empty: nothing is offloaded
};

/// The most that each device holds at once while it goes through its row.
std::vector<Bytes> peaks(const Schedule& schedule, const Problem& problem);

}  // namespace weft::pipeline::detail
