// The bound against all schedules there are, of problems small enough to try them all.

#include "weft/pipeline/certificate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "support/draw.hpp"
#include "unit/pipeline/all_schedules.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline {
namespace {

TEST(Certificate, NoScheduleThereIsIsShorter) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    test::Draw draw(seed);
    const test::SmallProblem small = test::draw_problem(draw);
    for (const Objective objective : {Objective::makespan, Objective::span}) {
      const Certificate floor = lower_bound(small.problem, small.device_of, objective);
      EXPECT_GE(test::shortest(small, objective), floor.bound) << "seed " << seed << ": " << floor;
    }
  }
}

TEST(Certificate, IsCheckedByCodeOfItsOwnToTheNanosecond) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    test::Draw draw(seed);
    const test::SmallProblem small = test::draw_problem(draw);
    for (const Objective objective : {Objective::makespan, Objective::span}) {
      Certificate floor = lower_bound(small.problem, small.device_of, objective);
      EXPECT_TRUE(holds(floor, small.problem, small.device_of)) << "seed " << seed << ": " << floor;
      ++floor.bound;
      EXPECT_FALSE(holds(floor, small.problem, small.device_of)) << "seed " << seed << ": " << floor;
    }
  }
}

TEST(Certificate, NamesItsArgument) {
  const Problem problem{.devices = 2, .microbatches = 4, .costs = uniform_costs(2, 1, {10, 10, 10, 1, 1})};
  std::ostringstream out;
  out << lower_bound(problem, looped_placement(2), Objective::makespan);
  EXPECT_EQ(out.str(), "makespan >= 130 ns: load of device 1");
}

/// The formulas of the field for stages alike, F = B = W = 1.
TEST(Certificate, IsWhatIsKnownForStagesThatAreAlike) {
  const auto bound = [](int chunks, Objective objective, int memory, Bytes kept) {
    Problem problem{
        .devices = 8, .microbatches = 32, .costs = uniform_costs(8, chunks, {40, 40, 40, 40, kept})};
    problem.memory_limit.assign(8, memory * 40);
    return lower_bound(problem, looped_placement(8, chunks), objective).bound;
  };
  EXPECT_EQ(bound(1, Objective::makespan, 64, 40), 32 * 120 + 7 * 40);  // work + (p - 1) F
  EXPECT_EQ(bound(4, Objective::makespan, 64, 40), 32 * 120 + 7 * 10);  // work + (p - 1) F / v
  EXPECT_EQ(bound(1, Objective::span, 16, 0), 32 * 120);                // no bubble in twice the memory
  EXPECT_EQ(bound(1, Objective::span, 8, 40), 32 * 120 + 7 * (40 + 40 - 40));  // (p - 1)(F + B - W): ZB-H1
}

}  // namespace
}  // namespace weft::pipeline
