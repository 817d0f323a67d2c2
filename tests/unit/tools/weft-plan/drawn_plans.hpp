#pragma once
// Plans drawn at random, and what has to hold for each: a faster link, memory or product never slows a step;
// on links that cost nothing a step is what its computations alone take; the parts add up.

#include <string>

#include "support/draw.hpp"
#include "weft-plan/scale/step.hpp"

namespace weft::test {

struct DrawnPlan {
  scale::Model model;
  scale::Hardware hardware;
  scale::Plan plan;  ///< completed, and it divides
};

DrawnPlan draw_plan(Draw& draw);

/// @returns what does not hold, or nothing
std::string what_fails(const DrawnPlan& drawn);

/// The step without any communication, by the obvious way: the schedule's rows are gone through again and
/// again until no time changes.
double computed_alone(const DrawnPlan& drawn);

}  // namespace weft::test
