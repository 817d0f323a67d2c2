#pragma once
// Predicts when everything in a schedule happens, by a problem's costs: every device executes its row in
// order, each entry as early as possible.
//
//   Prediction predicted = simulate(plan, problem);
//   predicted.makespan, predicted.bubble_makespan(), predicted.devices[3].peak_memory ...
//
// There are two ways to count the time of a step, and a bubble for each. The makespan is the time from the
// first start on any device to the last end on any device. It counts if all devices wait at the end of a
// step, for a norm of the gradients, say. Each device also has a time from its own first start to its own
// last end; the span is the longest of these. It counts if each device may begin the next step by itself.
//
// In a schedule without transfers every value is sent as soon as it is computed. Gathers, reductions and
// copies have a stream each on every device, which executes in the order posted and shares no wire with
// messages. Deterministic; linear in entries, times a logarithm where wires are shared.

#include <cstdint>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

/// Why a device did not compute, from time 0 to the makespan.
struct Idle {
  Nanoseconds before_first = 0;  ///< its first forward had not arrived
  Nanoseconds for_forward = 0;   ///< an activation was still being computed elsewhere
  Nanoseconds for_backward = 0;  ///< a gradient was
  Nanoseconds for_wire = 0;      ///< a computed value was on its way
  Nanoseconds for_side = 0;      ///< gathers of parameters, reductions, copies to the host and back
  Nanoseconds after_last = 0;

  Nanoseconds total() const {
    return before_first + for_forward + for_backward + for_wire + for_side + after_last;
  }
};

struct DevicePrediction {
  Nanoseconds begin = 0, end = 0;  ///< of its first and last computation
  Nanoseconds work = 0;
  Bytes peak_memory = 0;  ///< of activations
  Idle idle;
};

struct Prediction {
  Nanoseconds makespan = 0;
  Nanoseconds span = 0;
  std::vector<DevicePrediction> devices;
  /// The times of each entry of each row; empty unless Keep::times was given.
  std::vector<std::vector<Nanoseconds>> begins, ends;

  Nanoseconds length(Objective objective) const;
  /// Whether every device stays within its memory limit.
  bool fits(const Problem& problem) const;
  /// The work of the busiest device.
  Nanoseconds most_work() const;
  /// 1 - most_work() / makespan, or over span.
  double bubble_makespan() const;
  double bubble_span() const;
};

enum class Keep { totals, times };

/// @throws Error (usage) if the schedule cannot be executed to its end, with the devices that wait and for
/// which entries
Prediction simulate(const Schedule& schedule, const Problem& problem, Keep keep = Keep::totals);

}  // namespace weft::pipeline
