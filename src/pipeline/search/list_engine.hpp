#pragma once
// List scheduling without its rules. The engine lets time pass and asks each idle device which of the available
// actions it starts, or how long it waits. It keeps where microbatches are, what devices hold, and which device
// is asked next.
//
//   ListEngine engine(problem, device_of, {});
//   engine.run([&](int device, Nanoseconds now) -> ListEngine::Choice { ... engine.stages(device) ... });
//
// Microbatches are alike, so every stage takes them in order, forward, backward and weights each; backward is
// split into I and W. Messages do not share wires: each takes its hop's delay. Deterministic. Time is linear in
// actions, times the logarithm of devices; memory is 16 bytes for each microbatch of each stage.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "pipeline/search/wakes.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

inline std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

class ListEngine {
 public:
  static constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max() / 4;

  /// The order in which devices are asked: schedulers differ in it, and schedules depend on it.
  struct Asking {
    /// Devices that become idle at the same time are asked by number; otherwise in the order of the heap.
    bool by_number = false;
    /// A waiting device is asked again at any arrival; otherwise only when the next microbatch of a stage arrives.
    bool at_any_arrival = false;
  };
  struct Stage {
    StageCosts costs;
    int number = 0, device = 0, before = -1, after = -1;  // places of its neighbours
    Nanoseconds delay_before = 0, delay_after = 0;
    int forwards = 0, inputs = 0, weights = 0;                // begun
    Nanoseconds next_forward = never, next_gradient = never;  // when the inputs of the next F and I are there

    int held() const { return forwards - weights; }
    Bytes held_bytes() const {
      return (forwards - inputs) * costs.activation + (inputs - weights) * costs.kept_for_weight;
    }
  };
  struct Device {
    Nanoseconds free = 0, begin = -1;
    Bytes held = 0;
    int in_flight = 0;        // between forward and input gradient
    int weights_waiting = 0;  // between that and weight gradient
  };
  struct Choice {
    int chunk = -1;  ///< which of the device's stages begins one; -1: it waits
    ActionType type = ActionType::forward;
    Nanoseconds wake = never;  ///< until then
  };
  using Rows = std::vector<std::vector<Action>>;

  /// @param device_of as many stages for each
  ListEngine(const Problem& problem, const std::vector<int>& device_of, const Asking& asking);

  /// From the start, until nothing is left or all wait.
  /// @param choose takes a device and the time, and gives its Choice
  /// @param rows where not null: the order of actions is written there
  /// @param give_up_at a makespan that need not be reached: ends with one that is no less
  /// @return whether all is done
  template <class Choose>
  bool run(const Choose& choose, Rows* rows, Nanoseconds give_up_at = never) {
    reset(rows);
    while (wakes_.first() < never && makespan_ < give_up_at) {
      const int device = wakes_.device();
      const Nanoseconds now = wakes_.first();
      const Choice choice = choose(device, now);
      choice.chunk < 0 ? wakes_.set(device, choice.wake) : start(device, choice, now);
    }
    return left_ == 0;
  }

  int chunks() const { return chunks_; }
  int microbatches() const { return microbatches_; }
  const Device& device(int index) const { return devices_[static_cast<std::size_t>(index)]; }
  /// The stages of a device, earlier ones first.
  std::span<const Stage> stages(int device) const {
    return {&stages_[static_cast<std::size_t>(device * chunks_)], static_cast<std::size_t>(chunks_)};
  }
  /// The device's chunk with the weight gradient to do now, where most of memory waits for it; -1: none has.
  int oldest_weight(int device) const;

  Nanoseconds makespan() const { return makespan_; }
  Nanoseconds span() const;
  /// By which devices' spans are above a bound, of all of them together.
  Nanoseconds excess(Nanoseconds bound) const;
  std::int64_t left() const { return left_; }  ///< actions

 private:
  void reset(Rows* rows);
  void start(int device, const Choice& choice, Nanoseconds now);
  void forwarded(Stage& stage, int microbatch, Nanoseconds end);
  void returned(Stage& stage, int microbatch, Nanoseconds end);
  void arrives(const Stage& to, std::vector<Nanoseconds>& there, int microbatch, int next_one,
               Nanoseconds& next, Nanoseconds when);
  Nanoseconds when_there(const std::vector<Nanoseconds>& there, const Stage& stage, int microbatch) const;
  std::size_t cell(const Stage& stage, int microbatch) const {
    return static_cast<std::size_t>(stage.number) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(microbatch);
  }

  bool at_any_arrival_;
  int microbatches_, chunks_;
  std::vector<Stage> stages_;  // chunk c of device d lies at d * chunks + c
  std::vector<Device> devices_;
  std::vector<Nanoseconds> forward_there_, gradient_there_;  // by stage and microbatch; `never` until known
  Wakes wakes_;
  Rows* rows_ = nullptr;
  Nanoseconds makespan_ = 0;
  std::int64_t left_ = 0;
};

}  // namespace weft::pipeline::detail
