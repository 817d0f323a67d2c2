#pragma once
// Problems small enough to try every schedule: the reference for lower bounds and for synthesis.

#include <vector>

#include "support/draw.hpp"
#include "weft/pipeline/problem.hpp"

namespace weft::test {

struct SmallProblem {
  pipeline::Problem problem;
  std::vector<int> device_of;
};

/// 2 or 3 devices with one stage, or 2 with two, 1 to 3 microbatches.
SmallProblem draw_problem(Draw& draw);

/// 2 devices with one stage, equal or not, memory for 1 or 2 of 3 or 4 microbatches, and hops that may be
/// longer than all work of a stage on one.
SmallProblem draw_problem_of_rounds(Draw& draw);

/// The shortest length over all orders on all devices that the memory allows.
pipeline::Nanoseconds shortest(const SmallProblem& small, pipeline::Objective objective);

}  // namespace weft::test
