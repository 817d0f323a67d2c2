// What a row alone shows: the order within the device, and memory. Each entry is checked against what was
// seen of its stage and microbatch, and then marked there. The other side of a transfer is not looked at: a
// value from another device is there once its receive was awaited.

#include <limits>

#include "pipeline/verify/marks.hpp"

namespace weft::pipeline::detail {
namespace {

using enum ActionType;

class Row {
 public:
  Row(const Schedule& schedule, const Problem& problem, Marks& marks, int device)
      : schedule_(schedule),
        row_(row_of(schedule, device)),
        marks_(marks),
        has_transfers_((marks.types & any_transfer) != 0),
        device_(device),
        limit_(problem.memory_limit.empty() ? std::numeric_limits<Bytes>::max()
                                            : problem.memory_limit[static_cast<std::size_t>(device)]) {}

  std::optional<Fault> check(std::vector<StageState>& stages) {
    for (std::size_t entry = 0; entry < row_.size(); ++entry) {
      const Action& action = row_[entry];
      StageState& stage = stages[static_cast<std::size_t>(action.stage)];
      const std::string what = action.microbatch < 0 ? of_stage(action, stage) : of_microbatch(action, stage);
      if (!what.empty()) return fault_at(schedule_, device_, entry, what);
    }
    return {};
  }

 private:
  std::string of_stage(const Action& action, StageState& stage) {
    switch (action.type) {
      case unshard:
        if (stage.parameters != (action.awaits ? Parameters::gathering : Parameters::sharded))
          return action.awaits ? "no UNSHARD is under way" : "its parameters are not sharded";
        stage.parameters = action.awaits ? Parameters::whole : Parameters::gathering;
        return {};
      case reshard:
        if (stage.parameters != Parameters::whole) return "its parameters are not whole";
        stage.parameters = Parameters::sharded;
        return {};
      default:
        if ((stage.marks & mark(action)) != 0) return "comes a second time";
        if (action.awaits && (stage.marks & mark(action.type)) == 0) return "was not posted before";
        if (stage.ended < schedule_.microbatches)
          return text("the last backward of ", schedule_.microbatches - stage.ended,
                      " microbatches has not run");
        stage.marks |= mark(action);
        return {};
    }
  }

  std::string of_microbatch(const Action& action, StageState& stage) {
    Mark& seen = marks_.at(action);
    if ((seen & mark(action)) != 0) return "comes a second time";
    std::string what;
    if (!action.awaits) {
      what = why_not(action, stage, seen);
    } else if ((seen & mark(action.type)) == 0) {
      what = "was not posted before";
    }
    if (!what.empty()) return what;
    seen |= mark(action);
    return account(action, stage, seen);
  }

  std::string why_not(const Action& action, const StageState& stage, Mark seen) {
    switch (action.type) {
      case forward:
        if (!input_is_there(action, stage, seen)) return "its input is not there";
        return whole_parameters(stage);
      case recompute:
        if ((seen & mark(forward)) == 0) return "its forward has not run";
        if ((seen & any_backward) != 0) return "its backward has run";
        return whole_parameters(stage);
      case backward:
      case backward_input:
        if ((seen & mark(forward)) == 0) return "its forward has not run";
        if ((seen & any_backward) != 0) return "its backward has run";
        if (!gradient_is_there(action, stage, seen)) return "the gradient of its output is not there";
        return activation_fault(stage, seen);
      case backward_weight:
        if ((seen & mark(backward_input)) == 0) return "its input gradient (I) has not run";
        return activation_fault(stage, seen);
      case send_forward:
        return send_fault(stage_of(action, +1), seen & mark(forward), "its forward has not run");
      case send_backward:
        return send_fault(stage_of(action, -1), seen & any_backward, "its gradient is not computed");
      case receive_forward:
        return stage.input == StageState::another ? "" : "no other device has its input";
      case receive_backward:
        return stage.gradient == StageState::another ? "" : "no other device has the gradient of its output";
      case offload:
        return (seen & any_end) != 0 ? "its activation is no longer held" : held_fault(seen);
      case load:
        return (seen & mark_awaited(offload)) != 0 ? "" : "no offload of it was awaited";
      default:
        return {};
    }
  }

  /// The next stage (+1) or the one before (-1) if it is on another device, otherwise -1.
  int stage_of(const Action& action, int step) const {
    const int stage = action.stage + step;
    const bool is_there = stage >= 0 && stage < schedule_.stages();
    return is_there && device_of(schedule_, stage) != device_ ? stage : -1;
  }
  static std::string send_fault(int to, Mark computed, const char* otherwise) {
    if (to < 0) return "no other device needs it";
    return computed != 0 ? "" : otherwise;
  }

  bool input_is_there(const Action& action, const StageState& stage, Mark seen) const {
    if (stage.input == StageState::another)
      return !has_transfers_ || (seen & mark_awaited(receive_forward)) != 0;
    return stage.input == StageState::nowhere || (neighbour(action, -1) & mark(forward)) != 0;
  }
  bool gradient_is_there(const Action& action, const StageState& stage, Mark seen) const {
    if (stage.gradient == StageState::another)
      return !has_transfers_ || (seen & mark_awaited(receive_backward)) != 0;
    return stage.gradient == StageState::nowhere || (neighbour(action, +1) & any_backward) != 0;
  }
  Mark neighbour(const Action& action, int step) const {
    return marks_.row(action.stage + step)[static_cast<std::size_t>(action.microbatch)];
  }

  static std::string whole_parameters(const StageState& stage) {
    const bool whole = stage.parameters == Parameters::always_whole || stage.parameters == Parameters::whole;
    return whole ? "" : "its parameters are not whole: no UNSHARD was awaited";
  }
  /// Why the activation is not held, or nothing.
  static std::string held_fault(Mark seen) {
    if ((seen & mark(forward)) == 0) return "its forward has not run";
    const bool waits = (seen & will_recompute) != 0 && (seen & mark(recompute)) == 0;
    return waits ? "its RECOMPUTE comes later" : "";
  }
  static std::string activation_fault(const StageState& stage, Mark seen) {
    if ((seen & mark(offload)) != 0 && (seen & mark_awaited(load)) == 0)
      return "its activation is on the host: no LOAD was awaited";
    if (auto what = held_fault(seen); !what.empty()) return what;
    return whole_parameters(stage);
  }

  /// Updates memory and counts after an action; `seen` has its mark already.
  std::string account(const Action& action, StageState& stage, Mark seen) {
    switch (action.type) {
      case forward:
        return (seen & will_recompute) != 0 ? "" : take(stage.activation);
      case recompute:
        return take(stage.activation);
      case backward_input:
        held_ -= stage.activation - stage.kept_for_weight;
        return {};
      case backward:
      case backward_weight:
        held_ -= stage.held(seen);
        ++stage.ended;
        return {};
      case offload:
        if (action.awaits) held_ -= stage.held(seen);
        return {};
      case load:
        return action.awaits ? "" : take(stage.held(seen));
      default:
        return {};
    }
  }
  std::string take(Bytes bytes) {
    held_ += bytes;
    if (held_ <= limit_) return {};
    return text("activations would hold ", held_, " bytes, the limit is ", limit_);
  }

  const Schedule& schedule_;
  const std::vector<Action>& row_;
  Marks& marks_;
  const bool has_transfers_;
  const int device_;
  const Bytes limit_;
  Bytes held_ = 0;
};

std::vector<StageState> make_stages(const Schedule& schedule, const Problem& problem, const Marks& marks) {
  std::vector<StageState> result;
  for (int number = 0; number < schedule.stages(); ++number) {
    const auto at = static_cast<std::size_t>(number);
    const auto from = [&](int other) {
      if (other < 0 || other >= schedule.stages()) return StageState::nowhere;
      return device_of(schedule, other) == device_of(schedule, number) ? StageState::this_device
                                                                       : StageState::another;
    };
    const bool is_sharded = (marks.stages[at] & (mark(unshard) | mark(reshard))) != 0;
    const StageCosts& costs = problem.costs.stages[at];
    result.push_back({.parameters = is_sharded ? Parameters::sharded : Parameters::always_whole,
                      .activation = costs.activation,
                      .kept_for_weight = costs.kept_for_weight,
                      .input = from(number - 1),
                      .gradient = from(number + 1)});
  }
  return result;
}

}  // namespace

std::optional<Fault> check_rows(const Schedule& schedule, const Problem& problem, Marks& marks) {
  std::vector<StageState> stages = make_stages(schedule, problem, marks);
  for (int device = 0; device < schedule.devices(); ++device) {
    if (auto fault = Row(schedule, problem, marks, device).check(stages)) return fault;
    if (auto fault = check_row_ends(schedule, marks, device, stages)) return fault;
  }
  return {};
}

}  // namespace weft::pipeline::detail
