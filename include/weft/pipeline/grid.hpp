#pragma once
// A schedule for a terminal: a device per line.
//
//   std::cout << grid(plan, simulate(plan, problem, Keep::times), {.width = 120});
//
//     device 0 |F0F1F2F3....B0  F4  B1  ...      time to the right: F, B, I, W or R (recompute), and the
//     device 1 |..F0F1....B0  F2B1  ...          microbatch; small letters in every second chunk; idle: dots
//
//   if (auto fault = find_fault(plan, problem)) std::cout << grid(plan, {.fault = &*fault});
//
// A faulty schedule may have no times, so the second form draws by entries, those around the fault. A line
// below a row marks the fault in it.

#include <string>

#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::pipeline {

struct GridOptions {
  int width = 160;               ///< the longest line, in characters; 40 or more
  const Fault* fault = nullptr;  ///< marked, if given
  double unit = 1;               ///< nanoseconds in the unit that times are printed in
  const char* unit_name = " ns";
};

/// Draws by time. Numbers are left out where lines are too short for them, letters where they are much too
/// short.
/// @param prediction with times @throws Error (usage) for a prediction without times or of another schedule,
/// or a width below 40
std::string grid(const Schedule& schedule, const Prediction& prediction, const GridOptions& options = {});
/// Draws by entries: entry k of every device in one column, as many columns as a line holds. @throws Error
/// (usage) for a width below 40
std::string grid(const Schedule& schedule, const GridOptions& options = {});

}  // namespace weft::pipeline
