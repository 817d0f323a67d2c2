#pragma once
// Where a device keeps the values that cross boundaries between stages: planned from its row before the first
// step.
//
// A value has a slot from the entry that makes it (a computation, or a receive that is posted) to the last
// that needs it (the send's wait, or the last backward of its consumer). Slots of one size are reused. Where
// both stages of a boundary are on this device, they share the slot.

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
  std::vector<std::vector<StageSlots>> of;  ///< by stage of this device (ascending) and microbatch
  std::vector<Slot> slots;
  std::size_t bytes = 0;  ///< of all slots together
  /// For each entry of the row, the slots that are free after it.
  std::vector<std::vector<int>> freed;
};

/// @param boundaries of all stages: [s] is what stage s takes, [s + 1] what it gives
ValueSlots place_values(const Schedule& schedule, int device, const std::vector<Boundary>& boundaries);

}  // namespace weft::pipeline::detail
