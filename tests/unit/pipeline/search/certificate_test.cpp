// The bound against all schedules there are, of problems small enough to try them all.

#include "weft/pipeline/certificate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "support/draw.hpp"
#include "unit/pipeline/search/all_schedules.hpp"
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

TEST(Certificate, NoScheduleThereIsIsShorterWhereMemoryMakesRounds) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    test::Draw draw(seed);
    const test::SmallProblem small = test::draw_problem_of_rounds(draw);
    for (const Objective objective : {Objective::makespan, Objective::span}) {
      const Certificate floor = lower_bound(small.problem, small.device_of, objective);
      EXPECT_GE(test::shortest(small, objective), floor.bound) << "seed " << seed << ": " << floor;
    }
  }
}

TEST(Certificate, IsCheckedByCodeOfItsOwnToTheNanosecond) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    test::Draw draw(seed);
    const test::SmallProblem small =
        seed % 2 == 0 ? test::draw_problem(draw) : test::draw_problem_of_rounds(draw);
    for (const Objective objective : {Objective::makespan, Objective::span}) {
      Certificate floor = lower_bound(small.problem, small.device_of, objective);
      EXPECT_TRUE(holds(floor, small.problem, small.device_of)) << "seed " << seed << ": " << floor;
      ++floor.bound;
      EXPECT_FALSE(holds(floor, small.problem, small.device_of)) << "seed " << seed << ": " << floor;
    }
  }
}

TEST(Certificate, IsRefusedWhereItsWordsFitNothing) {
  Problem problem{
      .devices = 5, .microbatches = 30, .costs = uniform_costs(5, 1, {61, 40, 23, 2, 0}, {.latency = 46})};
  problem.memory_limit.assign(5, 10);
  const std::vector<int> device_of = looped_placement(5);
  const Certificate floor = lower_bound(problem, device_of, Objective::makespan);
  ASSERT_EQ(floor.argument, Argument::rounds);
  const auto refused = [&](auto change) {
    Certificate other = floor;
    change(other);
    return !holds(other, problem, device_of);
  };
  EXPECT_TRUE(refused([](Certificate& one) { ++one.bound; }));
  EXPECT_TRUE(refused([](Certificate& one) { one.device = 4; }));
  EXPECT_TRUE(refused([](Certificate& one) { one.device = 5; }));
  EXPECT_TRUE(refused([](Certificate& one) { one.device = -1; }));
  EXPECT_TRUE(refused([](Certificate& one) { one.after = -1; }));
  EXPECT_TRUE(refused([](Certificate& one) { one.after = 30; }));
  EXPECT_TRUE(refused([](Certificate& one) { one.argument = Argument::load; }));
  EXPECT_TRUE(refused([](Certificate& one) { one.argument = Argument::stream; }));
  EXPECT_TRUE(refused([](Certificate& one) { one.argument = Argument{3}; }));
  problem.memory_limit.assign(5, 60);  // all fit: there are no rounds
  EXPECT_FALSE(holds(floor, problem, device_of));
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
