#pragma once
// A schedule over time as a drawing: one SVG file that needs nothing else.
//
//   Prediction predicted = simulate(plan, problem, Keep::times);
//   file << svg(plan, predicted, {.unit = 1e6, .unit_name = " ms", .bound = floor.bound});
//
// Each device has a row, and each computation a box. F, B or I, W and recomputation have a colour each, safe
// for colour blindness on a light and on a dark background; later chunks are paler. A box has its
// microbatch's number if that fits, and shows action, begin and end as a tooltip. Idle time is blank; a thin
// line through it is a wait for a gather, a reduction or a copy.
//
// A drawing stays small enough for a browser. With more than 20,000 computations (most_boxes), boxes narrower
// than half a pixel are joined with their neighbours, in the colour of the longest. If that is not enough,
// wider ones are joined, too. The tooltip of such a box has the number of computations.

#include <string>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline {

struct DrawingOptions {
  int width = 1200;  ///< of the drawing, in pixels; 300 or more
  double unit = 1;   ///< nanoseconds in the unit that times are printed in
  std::string unit_name = " ns";
  std::string title{};    ///< empty: the schedule's name and its makespan
  Nanoseconds bound = 0;  ///< drawn as a line with its length; 0: none
  /// The objective of the bound. A bound of the span is drawn from the begin of the device that takes
  /// longest.
  Objective objective = Objective::makespan;
  Nanoseconds until = 0;    ///< the least end of the time axis, so that drawings compare
  int most_boxes = 20'000;  ///< with more computations, narrow ones are joined
};

/// @param prediction with times @throws Error (usage) for a prediction without times or of another schedule,
/// a width below 300, a unit that is not above 0
std::string svg(const Schedule& schedule, const Prediction& prediction, const DrawingOptions& options = {});

}  // namespace weft::pipeline
