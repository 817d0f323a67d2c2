#include "pipeline/search/list_scheduler.hpp"

#include <algorithm>
#include <utility>

namespace weft::pipeline::detail {
namespace {

using Choice = ListEngine::Choice;

Nanoseconds part(Nanoseconds length, int thousandths) {
  return length * thousandths / 1000;
}

}  // namespace

ListScheduler::ListScheduler(const Problem& problem, std::vector<int> device_of)
    : device_of_(std::move(device_of)),
      limits_(problem.memory_limit),
      engine_(problem, device_of_, {.by_number = true, .at_any_arrival = true}) {
  limits_.resize(static_cast<std::size_t>(problem.devices), ListEngine::never);
}

/// An input gradient, a weight gradient and a forward in turn, each waited for.
Choice ListScheduler::keep_step(int index, const Rules& rules, Nanoseconds now) const {
  const ListEngine::Device& device = engine_.device(index);
  const ListEngine::Stage& stage = engine_.stages(index).front();
  const auto when = [&](ActionType type, Nanoseconds there) {
    return there <= now ? Choice{0, type} : Choice{.wake = there};
  };
  if (stage.forwards < rules.step + std::min(stage.inputs, stage.weights + rules.weights_behind) &&
      device.held + stage.costs.activation <= limits_[static_cast<std::size_t>(index)])
    return when(ActionType::forward, stage.next_forward);
  if (device.weights_waiting > rules.weights_behind) return {0, ActionType::backward_weight};
  return when(ActionType::backward_input, stage.next_gradient);
}

/// So many forwards, then the first input gradient, each waited for.
Choice ListScheduler::warm_up(int index, const Rules& rules, Nanoseconds now) const {
  const ListEngine::Stage& stage = engine_.stages(index).front();
  const bool forward = stage.forwards < rules.first;
  const Nanoseconds there = forward ? stage.next_forward : stage.next_gradient;
  if (there > now) return {.wake = there};
  return {0, forward ? ActionType::forward : ActionType::backward_input};
}

Choice ListScheduler::choose(int index, const Rules& rules, Nanoseconds now) const {
  const ListEngine::Device& device = engine_.device(index);
  const auto stages = engine_.stages(index);
  const bool forwards_left = stages[0].forwards < engine_.microbatches();
  if (rules.step > 0 && forwards_left) return keep_step(index, rules, now);
  if (rules.first > 0 && stages[0].inputs == 0) return warm_up(index, rules, now);
  const Bytes limit = limits_[static_cast<std::size_t>(index)];
  int forward = -1, input = -1;
  bool no_room = false;
  Nanoseconds next_gradient = ListEngine::never, next_forward = ListEngine::never;
  Bytes with_one_more = device.held;  // and one for each later stage
  for (int chunk = engine_.chunks() - 1; chunk >= 0; --chunk) {
    const ListEngine::Stage& stage = stages[static_cast<std::size_t>(chunk)];
    with_one_more += stage.costs.activation;
    if (stage.next_gradient <= now && input < 0) input = chunk;
    next_gradient = std::min(next_gradient, stage.next_gradient);
    if (device.in_flight >= rules.depth) continue;
    if (with_one_more > limit) {
      no_room = no_room || stage.next_forward <= now;
    } else if (stage.next_forward <= now) {
      if (forward < 0 || !rules.later_stage_first) forward = chunk;
    } else {
      next_forward = std::min(next_forward, stage.next_forward);
    }
  }
  const bool last = !forwards_left && stages[0].inputs < engine_.microbatches();
  const bool weights = device.weights_waiting > (last ? rules.weights_last : 0);
  const Choice weight{weights ? engine_.oldest_weight(index) : -1, ActionType::backward_weight};
  if (device.in_flight < rules.fill) {
    if (forward >= 0) return {forward, ActionType::forward};
    if (no_room && weights) return weight;
  }
  if (input >= 0) return {input, ActionType::backward_input};
  const auto costs = [&](int chunk) -> const StageCosts& {
    return stages[static_cast<std::size_t>(chunk)].costs;
  };
  const bool on_time = stages[0].inputs + rules.on_time >= engine_.microbatches();
  const int overlap = on_time ? std::max(rules.weight_overlap, 1000) : rules.weight_overlap;
  const Nanoseconds weight_ends =
      weights ? now + part(costs(weight.chunk).backward_weight, overlap) : ListEngine::never;
  if (forward >= 0) {
    if (device.weights_waiting > rules.weights_kept) return weight;
    const Nanoseconds ends = now + part(costs(forward).forward, rules.forward_overlap);
    if (next_gradient >= ends) return {forward, ActionType::forward};
    if (weight_ends <= next_gradient) return weight;
    return {.wake = next_gradient};
  }
  if (weights && weight_ends <= std::min(next_gradient, next_forward)) return weight;
  return {.wake = std::min(next_gradient, next_forward)};
}

Drawn ListScheduler::draw(const std::vector<Rules>& rules, std::vector<std::vector<Action>>* rows,
                          Nanoseconds give_up_at, Nanoseconds bound) {
  const auto chooses = [&](int device, Nanoseconds now) {
    return choose(device, rules[static_cast<std::size_t>(device)], now);
  };
  const bool finished = engine_.run(chooses, rows, give_up_at);
  return {finished, engine_.makespan(), engine_.span(), engine_.excess(bound)};
}

}  // namespace weft::pipeline::detail
