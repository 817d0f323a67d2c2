#include "pipeline/simulate/side_streams.hpp"

#include <algorithm>

namespace weft::pipeline::detail {
namespace {

std::size_t stream_number(ActionType type) {
  return type == ActionType::reduce_gradients                      ? 1
         : type == ActionType::offload || type == ActionType::load ? 2
                                                                   : 0;
}

}  // namespace

SideStreams::SideStreams(const Schedule& schedule, const Problem& problem)
    : schedule_(schedule), problem_(problem), free_(schedule.rows.size()) {
  copies_ = std::ranges::any_of(schedule.rows, [](const auto& row) {
    return std::ranges::any_of(row, [](const Action& one) { return one.type == ActionType::offload; });
  });
  const auto microbatches = static_cast<std::size_t>(copies_ ? schedule.microbatches : 0);
  ends_.resize(schedule.device_of.size() * (2 + 2 * microbatches));
}

/// Gathers and reductions of all stages come first, then OFFLOAD and LOAD of each microbatch.
std::size_t SideStreams::index(const Action& action) const {
  const auto stages = schedule_.device_of.size(), stage = static_cast<std::size_t>(action.stage);
  if (!is_of_microbatch(action.type))
    return stage * 2 + (action.type == ActionType::reduce_gradients ? 1 : 0);
  const auto microbatches = static_cast<std::size_t>(schedule_.microbatches);
  return stages * 2 + (stage * microbatches + static_cast<std::size_t>(action.microbatch)) * 2 +
         (action.type == ActionType::load ? 1 : 0);
}

Nanoseconds SideStreams::cost(const Action& action) const {
  const StageCosts& stage = problem_.costs.stages[static_cast<std::size_t>(action.stage)];
  switch (action.type) {
    case ActionType::unshard:
      return stage.unshard;
    case ActionType::reduce_gradients:
      return stage.reduce;
    case ActionType::offload:
    case ActionType::load:
      return stage.copy;
    default:
      return 0;  // RESHARD takes no time
  }
}

void SideStreams::post(const Action& action, Nanoseconds when) {
  const auto device = static_cast<std::size_t>(schedule_.device_of[static_cast<std::size_t>(action.stage)]);
  Nanoseconds& free = free_[device][stream_number(action.type)];
  free = std::max(free, when) + cost(action);
  if (action.type != ActionType::reshard) ends_[index(action)] = free;
}

}  // namespace weft::pipeline::detail
