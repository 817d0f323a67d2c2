#include "pipeline/search/list_engine.hpp"

#include <algorithm>

namespace weft::pipeline::detail {
ListEngine::ListEngine(const Problem& problem, const std::vector<int>& device_of, const Asking& asking)
    : at_any_arrival_(asking.at_any_arrival),
      microbatches_(problem.microbatches),
      chunks_(problem.chunks()),
      stages_(device_of.size()),
      devices_(at(problem.devices)),
      wakes_(problem.devices, asking.by_number) {
  std::vector<int> chunk(devices_.size());
  int before = -1;
  for (int number = 0; number < problem.stages(); ++number) {
    const int device = device_of[at(number)];
    const int place = device * chunks_ + chunk[at(device)]++;
    Stage& stage = stages_[at(place)];
    stage.costs = problem.costs.stages[at(number)];
    stage.number = number;
    stage.device = device;
    stage.before = before;
    if (before >= 0) {
      Stage& other = stages_[at(before)];
      other.after = place;
      if (other.device != device)
        stage.delay_before = other.delay_after = problem.costs.hops[at(number - 1)].delay();
    }
    before = place;
  }
}

void ListEngine::reset(Rows* rows) {
  forward_there_.assign(stages_.size() * at(microbatches_), never);
  gradient_there_.assign(forward_there_.size(), never);
  std::fill_n(forward_there_.begin(), at(microbatches_), 0);
  for (Stage& stage : stages_) {
    stage.forwards = stage.inputs = stage.weights = 0;
    stage.next_forward = stage.before < 0 ? 0 : never;
    stage.next_gradient = never;
  }
  std::ranges::fill(devices_, Device{});
  wakes_.reset();
  makespan_ = 0;
  left_ = std::int64_t{3} * microbatches_ * static_cast<std::int64_t>(stages_.size());
  rows_ = rows;
  if (rows_ == nullptr) return;
  rows_->assign(devices_.size(), {});
  for (std::vector<Action>& row : *rows_) row.reserve(at(3 * chunks_) * at(microbatches_));
}

int ListEngine::oldest_weight(int device) const {
  const auto mine = stages(device);
  int best = -1;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    const Stage& stage = mine[at(chunk)];
    if (stage.weights < stage.inputs && (best < 0 || stage.weights <= mine[at(best)].weights)) best = chunk;
  }
  return best;
}

Nanoseconds ListEngine::span() const {
  Nanoseconds longest = 0;
  for (const Device& one : devices_) longest = std::max(longest, one.free - one.begin);
  return longest;
}

Nanoseconds ListEngine::excess(Nanoseconds bound) const {
  Nanoseconds sum = 0;
  for (const Device& one : devices_) sum += std::max<Nanoseconds>(0, one.free - one.begin - bound);
  return sum;
}

void ListEngine::start(int index, const Choice& choice, Nanoseconds now) {
  Device& device = devices_[at(index)];
  Stage& stage = stages_[at(index * chunks_ + choice.chunk)];
  const StageCosts& costs = stage.costs;
  if (device.begin < 0) device.begin = now;
  int microbatch = 0;
  if (choice.type == ActionType::forward) {
    microbatch = stage.forwards++;
    ++device.in_flight;
    device.held += costs.activation;
    device.free = now + costs.forward;
    forwarded(stage, microbatch, device.free);
  } else if (choice.type == ActionType::backward_input) {
    microbatch = stage.inputs++;
    --device.in_flight;
    ++device.weights_waiting;
    device.held -= costs.activation - costs.kept_for_weight;  // nothing starts here before its end
    device.free = now + costs.backward_input;
    returned(stage, microbatch, device.free);
  } else {
    microbatch = stage.weights++;
    --device.weights_waiting;
    device.held -= costs.kept_for_weight;
    device.free = now + costs.backward_weight;
  }
  if (rows_ != nullptr) (*rows_)[at(index)].push_back({choice.type, stage.number, microbatch});
  makespan_ = std::max(makespan_, device.free);
  --left_;
  wakes_.set(index, device.free);
}

Nanoseconds ListEngine::when_there(const std::vector<Nanoseconds>& there, const Stage& stage,
                                   int microbatch) const {
  return microbatch < microbatches_ ? there[cell(stage, microbatch)] : never;
}

void ListEngine::forwarded(Stage& stage, int microbatch, Nanoseconds end) {
  stage.next_forward = when_there(forward_there_, stage, microbatch + 1);
  if (stage.after < 0) {
    arrives(stage, gradient_there_, microbatch, stage.inputs, stage.next_gradient, end);
  } else {
    Stage& next = stages_[at(stage.after)];
    arrives(next, forward_there_, microbatch, next.forwards, next.next_forward, end + stage.delay_after);
  }
}

void ListEngine::returned(Stage& stage, int microbatch, Nanoseconds end) {
  stage.next_gradient = when_there(gradient_there_, stage, microbatch + 1);
  if (stage.before < 0) return;
  Stage& next = stages_[at(stage.before)];
  arrives(next, gradient_there_, microbatch, next.inputs, next.next_gradient, end + stage.delay_before);
}

void ListEngine::arrives(const Stage& to, std::vector<Nanoseconds>& there, int microbatch, int next_one,
                         Nanoseconds& next, Nanoseconds when) {
  there[cell(to, microbatch)] = when;
  if (microbatch == next_one)
    next = when;
  else if (!at_any_arrival_)
    return;
  const Nanoseconds wakes = std::max(when, devices_[at(to.device)].free);
  if (wakes < wakes_.of(to.device)) wakes_.set(to.device, wakes);
}

}  // namespace weft::pipeline::detail
