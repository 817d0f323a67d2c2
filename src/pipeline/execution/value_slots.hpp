#pragma once
// Where the values of a device lie that cross boundaries between stages: planned from its row before the
// first step.
//
// A value has a slot from the entry that makes it (a computation, or a receive that is posted) to the one
// after which nothing needs it: the send's wait, or the last backward of who used it. Slots of one size are
// used again. Where both stages of a boundary are on this device, what one writes is what the other reads.

#include <cstddef>
#include <vector>

#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/stage.hpp"

namespace weft::pipeline::detail {

inline constexpr int no_slot = -1;

/// The slots of one microbatch at one stage.
struct StageSlots {
  int input = no_slot;
  int output = no_slot;
  int output_gradient = no_slot;
  int input_gradient = no_slot;
};

struct Slot {
  std::size_t offset = 0;  ///< in the arena
  std::size_t bytes = 0;
};

struct ValueSlots {
  std::vector<std::vector<StageSlots>> of;  ///< by this device's stage (rising), and microbatch
  std::vector<Slot> slots;
  std::size_t bytes = 0;  ///< of all
  /// Slots that are free after an entry of the row.
  std::vector<std::vector<int>> freed;
};

/// @param boundaries of all stages: [s] is what stage s takes, [s + 1] what it gives
ValueSlots place_values(const Schedule& schedule, int device, const std::vector<Boundary>& boundaries);

}  // namespace weft::pipeline::detail
