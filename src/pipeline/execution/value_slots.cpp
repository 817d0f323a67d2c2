// Walks the row once and gives out slots: occupy() where an entry makes a value, leave() after its last use.
// Free slots are kept by size; the last freed is taken first. O(n log n) in entries.

#include "pipeline/execution/value_slots.hpp"

#include <algorithm>
#include <map>

#include "core/base/round_up.hpp"
#include "weft/core/buffer.hpp"

namespace weft::pipeline::detail {
namespace {

class Placement {
 public:
  Placement(const Schedule& schedule, int device, const std::vector<Boundary>& boundaries)
      : schedule_(schedule),
        row_(schedule.rows[static_cast<std::size_t>(device)]),
        boundaries_(boundaries),
        stages_(schedule.stages_of(device)) {
    plan_.of.assign(stages_.size(), std::vector<StageSlots>(static_cast<std::size_t>(schedule.microbatches)));
    plan_.freed.resize(row_.size());
    note_last_backwards();
  }

  ValueSlots run() {
    for (entry_ = 0; entry_ < row_.size(); ++entry_) take(row_[entry_]);
    return std::move(plan_);
  }

 private:
  // The last backward of a microbatch at a stage is B, or the later of I and W.
  void note_last_backwards() {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      if (is_backward(row_[i].type)) last_backward_[{row_[i].stage, row_[i].microbatch}] = i;
    }
  }

  void take(const Action& action) {
    switch (action.type) {
      case ActionType::receive_forward:
        if (!action.awaits) of(action).input = occupy(action.stage);
        break;
      case ActionType::receive_backward:
        if (!action.awaits) of(action).output_gradient = occupy(action.stage + 1);
        break;
      case ActionType::forward:
        of(action).output = occupy(action.stage + 1);
        if (StageSlots* next = here(action, action.stage + 1)) next->input = of(action).output;
        break;
      case ActionType::backward:
      case ActionType::backward_input:
        of(action).input_gradient = occupy(action.stage);
        if (StageSlots* before = here(action, action.stage - 1))
          before->output_gradient = of(action).input_gradient;
        break;
      case ActionType::send_forward:
        if (action.awaits) leave(of(action).output);
        break;
      case ActionType::send_backward:
        if (action.awaits) leave(of(action).input_gradient);
        break;
      default:
        break;
    }
    if (is_backward(action.type) && last_backward_[{action.stage, action.microbatch}] == entry_) {
      leave(of(action).input);
      leave(of(action).output_gradient);
    }
  }

  StageSlots& of(const Action& action) { return *here(action, action.stage); }
  /// The action's microbatch at another stage, if that is on this device.
  StageSlots* here(const Action& action, int stage) {
    const auto found = std::ranges::find(stages_, stage);
    if (found == stages_.end()) return nullptr;
    return &plan_.of[static_cast<std::size_t>(found - stages_.begin())]
                    [static_cast<std::size_t>(action.microbatch)];
  }

  int occupy(int boundary) {
    const Boundary& one = boundaries_[static_cast<std::size_t>(boundary)];
    if (one.count == 0) return no_slot;
    const std::size_t bytes =
        weft::detail::round_up(static_cast<std::size_t>(one.count) * size_of(one.dtype), Buffer::alignment);
    std::vector<int>& free = free_[bytes];
    if (free.empty()) {
      plan_.slots.push_back({plan_.bytes, bytes});
      plan_.bytes += bytes;
      return static_cast<int>(plan_.slots.size()) - 1;
    }
    const int slot = free.back();
    free.pop_back();
    return slot;
  }
  void leave(int slot) {
    if (slot == no_slot) return;
    plan_.freed[entry_].push_back(slot);
    free_[plan_.slots[static_cast<std::size_t>(slot)].bytes].push_back(slot);
  }

  const Schedule& schedule_;
  const std::vector<Action>& row_;
  const std::vector<Boundary>& boundaries_;
  std::vector<int> stages_;
  std::size_t entry_ = 0;
  std::map<std::pair<int, int>, std::size_t> last_backward_;
  std::map<std::size_t, std::vector<int>> free_;
  ValueSlots plan_;
};

}  // namespace

ValueSlots place_values(const Schedule& schedule, int device, const std::vector<Boundary>& boundaries) {
  return Placement(schedule, device, boundaries).run();
}

}  // namespace weft::pipeline::detail
