#pragma once
// Schedules whose order follows from costs: list scheduling by priorities. Time passes, and a device that is
// free begins the action of highest priority among those it could begin. The zero-bubble schedules and the
// V schedules are each a few sets of such priorities; the best set is taken.
//
// No set of priorities can end in a deadlock: a device never admits so much that another stage of its own
// could not take one microbatch. ListEngine keeps time and memory and writes the rows.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

struct PriorityRules {
  /// How many forwards of each stage may have begun without their input gradient. Empty: as memory allows.
  std::vector<int> in_flight{};
  /// How many activations each device may hold, over all its stages, from a forward to the end of its W.
  std::vector<int> held{};
  /// The rank of each chunk's F, then of each chunk's I: the lowest goes first.
  std::vector<int> rank{};
  /// Forwards and input gradients take turns where both can start.
  bool alternate = false;
  /// A W that makes room for a forward has that forward's rank.
  bool make_room = false;
  /// W runs even if something else arrives before it would end.
  bool eager_weights = false;
  /// The device waits for an action of higher rank that arrives before a lower one would end.
  bool patient = false;
};

/// A schedule and how long it takes. Messages take their hop's delay and never wait for a wire.
struct TimedSchedule {
  Nanoseconds makespan = 0, span = 0;
  Schedule schedule{};
};

/// @param give_up_at stops once the makespan is that long, without rows
TimedSchedule cost_aware_schedule(const Problem& problem, const std::vector<int>& device_of,
                                  const PriorityRules& rules,
                                  Nanoseconds give_up_at = std::numeric_limits<Nanoseconds>::max());

/// The best schedule of the first few of `rules`. How many are tried, one at least, depends on the number of
/// actions alone, so that the result is deterministic.
TimedSchedule best_cost_aware_schedule(const Problem& problem, const std::vector<int>& device_of,
                                       std::span<const PriorityRules> rules, Objective objective);

}  // namespace weft::pipeline::detail
