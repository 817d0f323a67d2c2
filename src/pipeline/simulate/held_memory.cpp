#include "pipeline/simulate/held_memory.hpp"

#include <algorithm>

namespace weft::pipeline::detail {

HeldMemory::HeldMemory(const Schedule& schedule, const Problem& problem)
    : problem_(problem),
      microbatches_(static_cast<std::size_t>(schedule.microbatches)),
      held_(schedule.rows.size()),
      peak_(schedule.rows.size()) {
  const std::size_t cells = schedule.device_of.size() * microbatches_;
  for (const auto& row : schedule.rows) {
    for (const Action& action : row) {
      if (action.type == ActionType::recompute) {
        recomputed_.resize(cells);
        recomputed_[cell(action)] = 1;
      }
      if (action.type == ActionType::offload) given_back_.resize(cells);
    }
  }
}

void HeldMemory::take(int device, Bytes bytes) {
  const auto d = static_cast<std::size_t>(device);
  peak_[d] = std::max(peak_[d], held_[d] += bytes);
}

void HeldMemory::at(int device, const Action& action) {
  const StageCosts& stage = problem_.costs.stages[static_cast<std::size_t>(action.stage)];
  Bytes& held = held_[static_cast<std::size_t>(device)];
  const auto still_held = [&] {
    return !given_back_.empty() && given_back_[cell(action)] != 0 ? stage.kept_for_weight : stage.activation;
  };
  switch (action.type) {
    case ActionType::forward:
      if (recomputed_.empty() || recomputed_[cell(action)] == 0) take(device, stage.activation);
      return;
    case ActionType::recompute:
      return take(device, stage.activation);
    case ActionType::backward:
      held -= stage.activation;
      return;
    case ActionType::backward_input:
      held -= stage.activation - stage.kept_for_weight;
      if (!given_back_.empty()) given_back_[cell(action)] = 1;
      return;
    case ActionType::backward_weight:
      held -= stage.kept_for_weight;
      return;
    case ActionType::offload:
      if (action.awaits) held -= still_held();
      return;
    case ActionType::load:
      if (!action.awaits) take(device, still_held());
      return;
    default:
      return;
  }
}

std::vector<Bytes> peaks(const Schedule& schedule, const Problem& problem) {
  HeldMemory memory(schedule, problem);
  std::vector<Bytes> result;
  for (int device = 0; device < schedule.devices(); ++device) {
    for (const Action& action : schedule.rows[static_cast<std::size_t>(device)]) memory.at(device, action);
    result.push_back(memory.peak(device));
  }
  return result;
}

}  // namespace weft::pipeline::detail
