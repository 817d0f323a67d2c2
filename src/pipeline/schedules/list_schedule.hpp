#pragma once
// List scheduling: time passes, and a device that is free takes what ranks first of what it could start. What
// the zero-bubble schedules share; each of them is a set of rules.
//
// A device never admits so much that another stage of its own could not take one microbatch: with that, no
// set of rules can end in a deadlock. Time and memory are those of ListEngine, and the rows.

#include <cstdint>
#include <limits>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

struct ListRules {
  /// Of each stage: forwards begun whose input gradient is not, at most. Empty: as memory allows.
  std::vector<int> in_flight{};
  /// Of each device: activations held, of whatever stage, from a forward to the end of its W.
  std::vector<int> held{};
  /// What goes first, the lower the earlier: of each chunk's F, then of each chunk's I.
  std::vector<int> rank{};
  /// Forwards and input gradients in turn, where both can start.
  bool alternate = false;
  /// A W that makes room for a forward counts as that forward.
  bool make_room = false;
  /// W runs although something else arrives before it would end.
  bool eager_weights = false;
  /// What is on its way and ranks first is waited for, rather than made to wait.
  bool patient = false;
};

struct Listed {
  Nanoseconds makespan = 0, span = 0;
  Schedule schedule{};
};

/// @param give_up_at a makespan that need not be reached: ends with one that is no less, and without rows
Listed list_schedule(const Problem& problem, const std::vector<int>& device_of, const ListRules& rules,
                     Nanoseconds give_up_at = std::numeric_limits<Nanoseconds>::max());

}  // namespace weft::pipeline::detail
