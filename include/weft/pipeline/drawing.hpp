#pragma once
// A schedule over time as a drawing: one SVG file that needs nothing else.
//
//   Prediction predicted = simulate(plan, problem, Keep::times);
//   file << svg(plan, predicted, {.unit = 1e6, .unit_name = " ms", .bound = floor.bound});
//
// A lane for each device and a box for each computation: F, B or I, W and recomputation have a colour each,
// which differ for those who cannot tell red from green too, on light ground and on dark; later chunks are
// paler. A box has its microbatch's number where that fits, and says action, begin and end when it is pointed
// at. Idle time is left blank; a thin line through it is a wait for a gather, a reduction or a copy.
//
// It stays small enough for a browser: with more than 20,000 computations (most_boxes) those narrower than
// half a pixel are drawn as one with their neighbours, in the colour of the longest, and where that is not
// enough, those that are somewhat wider too. Such a box says how many it stands for.

#include <string>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline {

struct DrawingOptions {
  int width = 1200;  ///< of the whole, in pixels; 300 or more
  double unit = 1;   ///< times are said in so many nanoseconds
  std::string unit_name = " ns";
  std::string title{};    ///< empty: the schedule's name and its makespan
  Nanoseconds bound = 0;  ///< marked, with its length; 0: none
  /// What the bound is of. One of the span is marked from the begin of the device that takes longest.
  Objective objective = Objective::makespan;
  Nanoseconds until = 0;    ///< where the time axis ends at the earliest, so that drawings compare
  int most_boxes = 20'000;  ///< with more computations narrow ones are drawn as one
};

/// @param prediction with times @throws Error (usage) for a prediction without times or of another schedule,
/// too small a width, a unit that is none
std::string svg(const Schedule& schedule, const Prediction& prediction, const DrawingOptions& options = {});

}  // namespace weft::pipeline
