#pragma once
// What the oracle asks of a schedule. Every answer is searched for anew.

#include <algorithm>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::test::oracle {

using namespace pipeline;
using enum ActionType;

constexpr int nowhere = -1;

/// A schedule and what can be asked of it.
struct Asked {
  const Schedule& schedule;
  const Problem& problem;

  int device(int stage) const { return schedule.device_of.at(static_cast<std::size_t>(stage)); }
  const std::vector<Action>& row(int number) const {
    return schedule.rows.at(static_cast<std::size_t>(number));
  }
  const Action& entry(int device_number, int at) const {
    return row(device_number).at(static_cast<std::size_t>(at));
  }
  int entries(int device_number) const { return static_cast<int>(row(device_number).size()); }

  bool is(const Action& action, ActionType type, int stage, int microbatch, bool awaits) const {
    return action.type == type && action.stage == stage && action.microbatch == microbatch &&
           action.awaits == awaits;
  }
  int count(ActionType type, int stage, int microbatch = -1, bool awaits = false) const {
    return static_cast<int>(std::ranges::count_if(row(device(stage)), [&](const Action& action) {
      return is(action, type, stage, microbatch, awaits);
    }));
  }
  /// Its place in the row of the stage's device.
  int position(ActionType type, int stage, int microbatch = -1, bool awaits = false) const {
    for (int at = 0; at < entries(device(stage)); ++at) {
      if (is(entry(device(stage), at), type, stage, microbatch, awaits)) return at;
    }
    return nowhere;
  }
  /// When an entry begins: the second of a pair begins with the first.
  int start(int device_number, int at) const {
    return at > 0 && entry(device_number, at - 1).overlaps_next ? at - 1 : at;
  }
  /// Whether both are in a stage's row, and one ends before the other begins.
  bool before(int device_number, int first, int second) const {
    return first != nowhere && second != nowhere && first < start(device_number, second);
  }
  ActionType gradient(int stage, int microbatch) const {
    return count(backward, stage, microbatch) > 0 ? backward : backward_input;
  }
  bool any_of(auto&& condition) const {
    return std::ranges::any_of(schedule.rows,
                               [&](const auto& entries) { return std::ranges::any_of(entries, condition); });
  }
  bool has_transfers() const {
    return any_of([](const Action& action) {
      return action.type == send_forward || action.type == receive_forward || action.type == send_backward ||
             action.type == receive_backward;
    });
  }
  bool is_there(int stage) const { return stage >= 0 && stage < schedule.stages(); }
  bool are_apart(int stage, int other) const { return device(stage) != device(other); }
};

/// The stage that a transfer connects with.
inline int other_stage(const Action& action) {
  return action.type == send_forward || action.type == receive_backward ? action.stage + 1 : action.stage - 1;
}
inline bool is_send(const Action& action) {
  return action.type == send_forward || action.type == send_backward;
}
inline bool is_transfer(const Action& action) {
  return is_send(action) || action.type == receive_forward || action.type == receive_backward;
}

struct Posted {
  int entry;
  int value_of;  ///< the stage that made it
  bool is_gradient;
  int microbatch;
};

/// The transfers that a device posts to, or from, another, in order.
std::vector<Posted> posts(const Asked& asked, int device, int other, bool sends);

/// Whether a state can be reached from which nothing moves, before the end: goes through every order in which
/// devices and transfers can move. Values that are sent are received, too, in the same order.
bool can_get_stuck(const Asked& asked);

}  // namespace weft::test::oracle
