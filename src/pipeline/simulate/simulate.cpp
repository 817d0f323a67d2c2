// Simulation of a schedule by costs. Every device walks through its row and stops at the first entry that
// needs something another device has not done. It is woken when that device has done it. Two orders:
//
//   wires of their own   in any order: a device is followed as far as it goes. Linear in entries.
//   shared wires         by time: the action that ends first is taken first, since a shared wire takes
//                        messages in the order in which they are sent. A priority queue adds a logarithm.
//
// Wires keep messages, SideStreams gathers, reductions and copies, HeldMemory activations.

#include "weft/pipeline/simulate.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <utility>

#include "pipeline/simulate/held_memory.hpp"
#include "pipeline/simulate/side_streams.hpp"
#include "pipeline/simulate/wires.hpp"
#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

using detail::Direction;
using detail::unknown;
using detail::Value;
using Row = std::vector<Action>;

Value input_of(const Action& action) {
  return {action.type == ActionType::forward || action.type == ActionType::receive_forward
              ? Direction::forward
              : Direction::backward,
          action.stage, action.microbatch};
}

Nanoseconds cost(const Action& action, const StageCosts& stage) {
  switch (action.type) {
    case ActionType::forward:
    case ActionType::recompute:
      return stage.forward;
    case ActionType::backward:
      return stage.backward();
    case ActionType::backward_input:
      return stage.backward_input;
    case ActionType::backward_weight:
      return stage.backward_weight;
    default:
      return 0;
  }
}

/// Whether it takes time on the device's compute stream.
bool runs(ActionType type) {
  return is_compute(type) || type == ActionType::recompute;
}

/// Whether it consumes a value of another stage and computes one itself.
bool needs_input(ActionType type) {
  return is_compute(type) && type != ActionType::backward_weight;
}

/// How far a device is in its row.
struct Walker {
  std::size_t next = 0;  ///< entry
  Nanoseconds free = 0;  ///< since when its compute stream is
};

class Simulation {
 public:
  Simulation(const Schedule& schedule, const Problem& problem, Keep keep);
  Prediction run();

 private:
  bool step(int device);
  bool compute(int device, const Action& action);
  bool wait(int device, const Action& action);
  Nanoseconds end_of(const Action& action) const;
  void keep_times(int device, const Action& action);
  void post(const Action& action, Nanoseconds when);
  Nanoseconds input_ready(const Action& action) const;
  void account_idle(int device, const Action& action, Nanoseconds begin);
  void wake(int device) { order_.push_back(device); }
  void in_any_order();
  void in_order_of_time();
  Nanoseconds next_end(int device) const;
  void expect_finished() const;

  const Schedule& schedule_;
  const Problem& problem_;
  detail::Wires wires_;
  detail::SideStreams side_;
  detail::HeldMemory memory_;
  std::vector<Walker> walkers_;
  std::vector<int> order_;  // devices that were woken
  Prediction result_;
};

Simulation::Simulation(const Schedule& schedule, const Problem& problem, Keep keep)
    : schedule_(schedule),
      problem_(problem),
      wires_(schedule, problem),
      side_(schedule, problem),
      memory_(schedule, problem),
      walkers_(schedule.rows.size()) {
  result_.devices.resize(schedule.rows.size());
  if (keep == Keep::totals) return;
  for (const Row& row : schedule.rows) {
    result_.begins.emplace_back(row.size());
    result_.ends.emplace_back(row.size());
  }
}

/// `unknown` while another device has still to do something for it.
Nanoseconds Simulation::input_ready(const Action& action) const {
  const bool first = action.type == ActionType::forward && action.stage == 0;
  return first || !needs_input(action.type) ? 0 : wires_.arrival(input_of(action));
}

void Simulation::account_idle(int device, const Action& action, Nanoseconds begin) {
  const Nanoseconds free = walkers_[static_cast<std::size_t>(device)].free;
  DevicePrediction& figures = result_.devices[static_cast<std::size_t>(device)];
  if (figures.work == 0) {
    figures.begin = begin;
    figures.idle.before_first = begin;
    return;
  }
  if (begin == free) return;
  const Nanoseconds computed = std::max(free, wires_.computed_at(input_of(action)));
  figures.idle.for_wire += begin - computed;
  (action.type == ActionType::forward ? figures.idle.for_forward : figures.idle.for_backward) +=
      computed - free;
}

bool Simulation::compute(int device, const Action& action) {
  Walker& walker = walkers_[static_cast<std::size_t>(device)];
  const Row& row = schedule_.rows[static_cast<std::size_t>(device)];
  Nanoseconds ready = input_ready(action);
  if (ready == unknown) return false;
  if (action.overlaps_next) {
    const Nanoseconds other = input_ready(row[walker.next + 1]);
    if (other == unknown) return false;
    ready = std::max(ready, other);
  }
  const Nanoseconds begin = std::max(walker.free, ready);
  account_idle(device, action, begin);
  const Nanoseconds took = cost(action, problem_.costs.stages[static_cast<std::size_t>(action.stage)]);
  walker.free = begin + took;
  DevicePrediction& figures = result_.devices[static_cast<std::size_t>(device)];
  figures.work += took;
  figures.end = walker.free;
  const bool forward = action.type == ActionType::forward;
  if (!needs_input(action.type) || (!forward && action.stage == 0)) return true;
  const bool turns = forward && action.stage == schedule_.stages() - 1;
  const int consumer = turns ? action.stage : action.stage + (forward ? 1 : -1);
  wires_.computed({forward && !turns ? Direction::forward : Direction::backward, consumer, action.microbatch},
                  walker.free);
  wake(schedule_.device_of[static_cast<std::size_t>(consumer)]);
  return true;
}

void Simulation::post(const Action& action, Nanoseconds when) {
  const bool forward = action.type == ActionType::send_forward || action.type == ActionType::receive_forward;
  const bool sends = action.type == ActionType::send_forward || action.type == ActionType::send_backward;
  const Value value{forward ? Direction::forward : Direction::backward,
                    sends ? action.stage + (forward ? 1 : -1) : action.stage, action.microbatch};
  sends ? wires_.post_send(value, when) : wires_.post_receive(value, when);
  const int other = sends ? value.stage : value.stage + (forward ? -1 : 1);
  wake(schedule_.device_of[static_cast<std::size_t>(other)]);
}

/// `unknown` while another device has still to do something for it.
Nanoseconds Simulation::end_of(const Action& action) const {
  if (detail::SideStreams::has(action.type)) return side_.end_of(action);
  const bool forward = action.type == ActionType::receive_forward || action.type == ActionType::send_forward;
  const bool sent = stream_of(action.type) == ActionStream::wire_out;
  const Value value{forward ? Direction::forward : Direction::backward,
                    sent ? action.stage + (forward ? 1 : -1) : action.stage, action.microbatch};
  return sent ? wires_.sent(value) : wires_.arrival(value);
}

/// Waits until a message has arrived or left, or a side stream has done its work.
bool Simulation::wait(int device, const Action& action) {
  const Nanoseconds when = end_of(action);
  if (when == unknown) return false;
  Walker& walker = walkers_[static_cast<std::size_t>(device)];
  DevicePrediction& figures = result_.devices[static_cast<std::size_t>(device)];
  if (when > walker.free && figures.work > 0)
    (detail::SideStreams::has(action.type) ? figures.idle.for_side : figures.idle.for_wire) +=
        when - walker.free;
  walker.free = std::max(walker.free, when);
  return true;
}

void Simulation::keep_times(int device, const Action& action) {
  if (result_.begins.empty()) return;
  const Walker& walker = walkers_[static_cast<std::size_t>(device)];
  const Nanoseconds took =
      runs(action.type) ? cost(action, problem_.costs.stages[static_cast<std::size_t>(action.stage)]) : 0;
  result_.begins[static_cast<std::size_t>(device)][walker.next] = walker.free - took;
  result_.ends[static_cast<std::size_t>(device)][walker.next] = walker.free;
}

/// Executes the device's next entry; false if that waits for another device.
bool Simulation::step(int device) {
  Walker& walker = walkers_[static_cast<std::size_t>(device)];
  const Row& row = schedule_.rows[static_cast<std::size_t>(device)];
  if (walker.next == row.size()) return false;
  const Action& action = row[walker.next];
  if (runs(action.type)) {
    if (!compute(device, action)) return false;
  } else if (action.awaits) {
    if (!wait(device, action)) return false;
  } else if (detail::SideStreams::has(action.type)) {
    side_.post(action, walker.free);
  } else {
    post(action, walker.free);
  }
  memory_.at(device, action);
  keep_times(device, action);
  ++walker.next;
  return true;
}

/// Follows each device as far as it goes: without shared wires the order changes no time.
void Simulation::in_any_order() {
  while (!order_.empty()) {
    const int device = order_.back();
    order_.pop_back();
    while (step(device)) {
    }
  }
}

/// When the device's next action ends, as far as that is known.
Nanoseconds Simulation::next_end(int device) const {
  const Walker& walker = walkers_[static_cast<std::size_t>(device)];
  const Row& row = schedule_.rows[static_cast<std::size_t>(device)];
  if (walker.next == row.size()) return unknown;
  const Action& action = row[walker.next];
  if (!runs(action.type)) return walker.free;
  const Nanoseconds ready = input_ready(action);
  if (ready == unknown) return unknown;
  return std::max(walker.free, ready) +
         cost(action, problem_.costs.stages[static_cast<std::size_t>(action.stage)]);
}

/// Takes actions in the order in which they end, which is when they send: a shared wire goes to the first
/// sender.
void Simulation::in_order_of_time() {
  using Turn = std::pair<Nanoseconds, int>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  const auto enter_woken = [&] {
    for (const int device : order_) {
      if (const Nanoseconds end = next_end(device); end != unknown) turns.emplace(end, device);
    }
    order_.clear();
  };
  for (enter_woken(); !turns.empty(); enter_woken()) {
    const auto [when, device] = turns.top();
    turns.pop();
    if (next_end(device) == when ? step(device) : next_end(device) != unknown) wake(device);
  }
}

void Simulation::expect_finished() const {
  std::string waiting;
  for (std::size_t d = 0; d < walkers_.size(); ++d) {
    const std::size_t next = walkers_[d].next;
    if (next == schedule_.rows[d].size()) continue;
    waiting += text(waiting.empty() ? "" : ", ", "device ", d, " at entry ", next, " (",
                    schedule_.rows[d][next], ")");
    if (waiting.size() > 200) {
      waiting += ", ...";
      break;
    }
  }
  if (!waiting.empty())
    throw Error(ErrorKind::usage,
                text("this schedule cannot be executed to its end: ", waiting, " wait for each other"),
                "verify() names the fault");
}

Prediction Simulation::run() {
  for (int device = schedule_.devices() - 1; device >= 0; --device) wake(device);
  wires_.shared() ? in_order_of_time() : in_any_order();
  expect_finished();
  for (std::size_t d = 0; d < walkers_.size(); ++d) {
    const DevicePrediction& one = result_.devices[d];
    result_.makespan = std::max(result_.makespan, one.end);
    result_.span = std::max(result_.span, one.end - one.begin);
  }
  for (std::size_t d = 0; d < walkers_.size(); ++d) {
    result_.devices[d].idle.after_last = result_.makespan - result_.devices[d].end;
    result_.devices[d].peak_memory = memory_.peak(static_cast<int>(d));
  }
  return std::move(result_);
}

}  // namespace

Prediction simulate(const Schedule& schedule, const Problem& problem, Keep keep) {
  return Simulation(schedule, problem, keep).run();
}

}  // namespace weft::pipeline
