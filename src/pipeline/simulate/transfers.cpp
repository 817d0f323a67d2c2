// Replays a prediction's messages, gathers, reductions and copies: all entries that post something are sorted
// by the times of the prediction and given once more to Wires and SideStreams. O(n log n) in entries.

#include "weft/pipeline/transfers.hpp"

#include <algorithm>
#include <tuple>

#include "pipeline/simulate/prediction.hpp"
#include "pipeline/simulate/side_streams.hpp"
#include "pipeline/simulate/wires.hpp"

namespace weft::pipeline {
namespace {

using detail::Direction;
using detail::Value;

/// An entry that posts or computes something, when it ends.
struct Event {
  Nanoseconds when = 0;
  int device = 0;
  std::size_t entry = 0;
};

class Replay {
 public:
  Replay(const Schedule& schedule, const Problem& problem)
      : schedule_(schedule),
        last_(schedule.stages() - 1),
        hops_(problem.costs.hops),
        wires_(schedule, problem),
        side_(schedule, problem) {}

  std::vector<Transfer> run(const Prediction& prediction) {
    for (const Event& event : events(prediction)) {
      const auto device = static_cast<std::size_t>(event.device);
      take(event, schedule_.rows[device][event.entry]);
    }
    for (const Value& value : sent_) add_message(value);
    std::ranges::sort(result_, {}, [](const Transfer& one) {
      return std::tuple(one.begin, one.end, one.device, one.action.stage, one.action.microbatch);
    });
    return std::move(result_);
  }

 private:
  /// All entries but the waits, in the order of time.
  std::vector<Event> events(const Prediction& prediction) const {
    std::vector<Event> result;
    for (std::size_t device = 0; device < schedule_.rows.size(); ++device) {
      const auto& row = schedule_.rows[device];
      for (std::size_t entry = 0; entry < row.size(); ++entry) {
        if (!row[entry].awaits)
          result.push_back({prediction.ends[device][entry], static_cast<int>(device), entry});
      }
    }
    std::ranges::sort(result, {},
                      [](const Event& one) { return std::tuple(one.when, one.device, one.entry); });
    return result;
  }

  void take(const Event& event, const Action& action) {
    const int stage = action.stage;
    if (detail::SideStreams::has(action.type)) {
      side_.post(action, event.when);
      const Nanoseconds took = side_.cost(action);
      if (took > 0)
        result_.push_back({event.device, action, side_.end_of(action) - took, side_.end_of(action)});
      return;
    }
    switch (action.type) {
      case ActionType::forward:
        if (stage < last_) computed({Direction::forward, stage + 1, action.microbatch}, event.when);
        return;
      case ActionType::backward:
      case ActionType::backward_input:
        if (stage > 0) computed({Direction::backward, stage - 1, action.microbatch}, event.when);
        return;
      case ActionType::send_forward:
        return send({Direction::forward, stage + 1, action.microbatch}, event.when);
      case ActionType::send_backward:
        return send({Direction::backward, stage - 1, action.microbatch}, event.when);
      case ActionType::receive_forward:
        return wires_.post_receive({Direction::forward, stage, action.microbatch}, event.when);
      case ActionType::receive_backward:
        return wires_.post_receive({Direction::backward, stage, action.microbatch}, event.when);
      default:
        return;  // W and RECOMPUTE send nothing
    }
  }

  void computed(const Value& value, Nanoseconds when) {
    wires_.computed(value, when);
    if (!wires_.posted() && !wires_.stays(value)) sent_.push_back(value);
  }

  void send(const Value& value, Nanoseconds when) {
    wires_.post_send(value, when);
    sent_.push_back(value);
  }

  void add_message(const Value& value) {
    const bool forward = value.direction == Direction::forward;
    const int source = value.stage + (forward ? -1 : 1);
    const Nanoseconds arrival = wires_.arrival(value),
                      took = hops_[static_cast<std::size_t>(std::min(source, value.stage))].delay();
    if (took == 0) return;
    const auto add = [&](ActionType type, int stage) {
      result_.push_back({schedule_.device_of[static_cast<std::size_t>(stage)],
                         {.type = type, .stage = stage, .microbatch = value.microbatch},
                         arrival - took,
                         arrival});
    };
    add(forward ? ActionType::send_forward : ActionType::send_backward, source);
    add(forward ? ActionType::receive_forward : ActionType::receive_backward, value.stage);
  }

  const Schedule& schedule_;
  const int last_;
  const std::vector<Hop>& hops_;
  detail::Wires wires_;
  detail::SideStreams side_;
  std::vector<Value> sent_;
  std::vector<Transfer> result_;
};

}  // namespace

std::vector<Transfer> transfers(const Schedule& schedule, const Problem& problem,
                                const Prediction& prediction) {
  detail::expect_times(schedule, prediction);
  return Replay(schedule, problem).run(prediction);
}

}  // namespace weft::pipeline
