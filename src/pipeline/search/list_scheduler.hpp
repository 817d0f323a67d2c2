#pragma once
// Draws up a schedule by going through time: whenever a device is free it takes what its rules say of what is
// there. One pass takes some 40 ns an action, so that many sets of rules can be tried.
//
// Microbatches are alike, so every stage takes them in order, forward, backward and weights each. What is
// left to choose is which of the three, and of which of its stages, a device does next:
//   - an input gradient that is there goes first: others wait for it;
//   - else a forward, if there is room for its activation, and unless an input gradient is about to arrive;
//   - else a weight gradient, unless something is about to arrive;
//   - else it waits.
// Or it goes in step, as long as it has forwards: an input gradient, a weight gradient and a forward in turn,
// so many weight gradients behind, and waits for each. What waits then is the same in every round. Or it
// is told how many forwards come before its first input gradient, and waits for each of these. A device
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
  int fill =
      0;  ///< while fewer are between forward and input gradient, a forward goes before that of another
  int depth = 1 << 30;            ///< and with so many there is no further forward
  bool later_stage_first = true;  ///< of forwards that are there
  /// In step, for a device with one stage: so many forwards before its first input gradient. 0: as they come.
  int step = 0;
  int weights_behind = 0;  ///< in step: input gradients that are through before their weight gradients begin
  /// For a device with one stage: so many forwards before its first input gradient, and no more. 0: as they
  /// come.
  int first = 0;
  int on_time =
      0;  ///< before so many of its last input gradients a weight gradient begins only if it ends before
  int weights_last = 0;  ///< after its last forward so many wait until its last input gradient is through

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
