#pragma once
// Draws up a schedule by going through time: whenever a device is free it takes what its rules say of what is
// there. One pass takes some 40 ns an action, so that many sets of rules can be tried.
//
// Microbatches are alike, so every stage takes them in order, forward, backward and weights each. What is
// left to choose is which of the three, and of which of its stages, a device does next:
//   - an input gradient that is there goes first: others wait for it;
//   - otherwise a forward, if there is room for its activation, and unless an input gradient is about to arrive;
//   - otherwise a weight gradient, unless something is about to arrive;
//   - otherwise it waits.
// Or a device works in rounds (`step`) as long as it has forwards: an input gradient, a weight gradient of an
// earlier microbatch, a forward. It waits for each, so every round leaves the same work waiting. Or it is
// given the number of forwards before its first input gradient (`first`), and waits for each of them. A device
// with several stages keeps room for one microbatch to go through the later ones, so that it never fills its
// memory with microbatches that cannot come back.

#include <vector>

#include "pipeline/search/list_engine.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// The rules of one device. An overlap says how much of an action may lie before a known arrival, in thousandths of the action's
/// length.
struct Rules {
  int forward_overlap = 0;     ///< 0: a forward is begun whatever arrives; 1000: only if it ends before
  int weight_overlap = 0;      ///< the same for a weight gradient
  int weights_kept = 1 << 30;  ///< with more of them waiting a weight gradient goes before a forward
  /// While fewer are between forward and input gradient, a forward goes before that of another.
  int fill = 0;
  int depth = 1 << 30;            ///< with this many there, no further forward begins
  bool later_stage_first = true;  ///< among forwards that could begin
  /// In rounds, for a device with one stage: the number of forwards before its first input gradient. 0: no rounds.
  int step = 0;
  int weights_behind = 0;  ///< in rounds: by how many input gradients the weight gradients lag
  /// For a device with one stage: exactly this many forwards come before its first input gradient. 0: any
  /// number.
  int first = 0;
  /// Before this many of its last input gradients, a weight gradient begins only if it ends in time.
  int on_time = 0;
  /// Weight gradients that wait, after the last forward, for the end of the last input gradient.
  int weights_last = 0;

  friend bool operator==(const Rules&, const Rules&) = default;
};

struct Drawn {
  bool finished = false;  ///< else its rules got stuck, or went beyond a bound given
  Nanoseconds makespan = 0, span = 0;
  Nanoseconds excess = 0;  ///< by which devices' spans are above a bound given, of all of them together
};

class ListScheduler {
 public:
  /// @param problem without what wires are shared
  ListScheduler(const Problem& problem, std::vector<int> device_of);

  /// @param rules one for each device
  /// @param rows where not null: the order of actions is written there
  /// @param give_up_at a makespan that need not be reached
  /// @param bound on spans, which the excess is above
  Drawn draw(const std::vector<Rules>& rules, std::vector<std::vector<Action>>* rows = nullptr,
             Nanoseconds give_up_at = ListEngine::never, Nanoseconds bound = 0);
  const std::vector<int>& device_of() const { return device_of_; }

 private:
  ListEngine::Choice choose(int device, const Rules& rules, Nanoseconds now) const;
  ListEngine::Choice warm_up(int device, const Rules& rules, Nanoseconds now) const;
  ListEngine::Choice keep_step(int device, const Rules& rules, Nanoseconds now) const;

  std::vector<int> device_of_;
  std::vector<Bytes> limits_;  // of each device
  ListEngine engine_;
};

}  // namespace weft::pipeline::detail
