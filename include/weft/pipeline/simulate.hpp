#pragma once
// When everything in a schedule happens, by a problem's costs: every device goes through its row in order, as
// early as it can.
//
//   Prediction predicted = simulate(plan, problem);
//   predicted.makespan, predicted.bubble_makespan(), predicted.devices[3].peak_memory ...
//
// Two figures are called bubble. By makespan (first start to last end over all devices) where a step ends in
// something that all wait for, such as a norm of the gradients; by span (each device's own first start to its
// last end, the longest counts) where devices may begin the next step one after the other.
//
// A schedule without communication is taken as if every value were sent as soon as it is there and cost the
// consumer nothing but the delay. Gathers, reductions and copies have a stream each on every device, which
// takes what is posted in order and shares no wire with messages. Deterministic; linear in entries, times a
// logarithm where wires are shared.

#include <cstdint>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

/// Why a device did not compute, between time 0 and the makespan.
struct Idle {
  Nanoseconds before_first = 0;  ///< no forward had arrived yet
  Nanoseconds for_forward = 0;   ///< an activation that was still being computed elsewhere
  Nanoseconds for_backward = 0;  ///< a gradient that was
  Nanoseconds for_wire = 0;      ///< either was computed, but on its way
  Nanoseconds for_side = 0;      ///< gathers of parameters, reductions, copies to the host and back
  Nanoseconds after_last = 0;

  Nanoseconds total() const {
    return before_first + for_forward + for_backward + for_wire + for_side + after_last;
  }
};

struct DevicePrediction {
  Nanoseconds begin = 0, end = 0;  ///< of its first and its last action of computation
  Nanoseconds work = 0;
  Bytes peak_memory = 0;  ///< of activations
  Idle idle;
};

struct Prediction {
  Nanoseconds makespan = 0;
  Nanoseconds span = 0;
  std::vector<DevicePrediction> devices;
  /// Of each entry of each row, where asked for.
  std::vector<std::vector<Nanoseconds>> begins, ends;

  Nanoseconds length(Objective objective) const;
  /// Whether no device holds more than its limit.
  bool fits(const Problem& problem) const;
  Nanoseconds most_work() const;
  /// 1 - (most work of a device) / makespan.
  double bubble_makespan() const;
  double bubble_span() const;
};

enum class Keep { totals, times };

/// @throws Error (usage) where the schedule cannot be executed to its end: names the devices that wait, and
/// for what
Prediction simulate(const Schedule& schedule, const Problem& problem, Keep keep = Keep::totals);

}  // namespace weft::pipeline
