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

/// @param long_forwards or all times of one size
void expect_reached_by_some(Argument argument, bool long_forwards, std::uint64_t draws) {
  int met = 0, reached = 0;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    test::Draw draw(seed);
    test::SmallProblem small{.problem = {.devices = 3, .microbatches = 2, .costs = {}},
                             .device_of = looped_placement(3)};
    const auto few = [&] { return Nanoseconds{1 + draw.below(4)}; };
    const auto many = [&] { return Nanoseconds{5 + draw.below(9)}; };
    for (int s = 0; s < 3; ++s) {
      const auto any = [&] { return Nanoseconds{1 + draw.below(20)}; };
      if (long_forwards)
        small.problem.costs.stages.push_back({s < 2 ? many() : few(), few(), few(), 2, 1});
      else
        small.problem.costs.stages.push_back({any(), any(), any(), 2, 1});
      if (s > 0) small.problem.costs.hops.push_back({.latency = draw.below(3)});
    }
    for (const Objective objective : {Objective::makespan, Objective::span}) {
      Certificate floor = lower_bound(small.problem, small.device_of, objective);
      if (floor.argument != argument) continue;
      ++met;
      const Nanoseconds shortest = test::shortest(small, objective);
      EXPECT_GE(shortest, floor.bound) << "seed " << seed << ": " << floor;
      reached += shortest == floor.bound ? 1 : 0;
      EXPECT_TRUE(holds(floor, small.problem, small.device_of)) << "seed " << seed << ": " << floor;
      ++floor.bound;
      EXPECT_FALSE(holds(floor, small.problem, small.device_of)) << "seed " << seed << ": " << floor;
    }
  }
  EXPECT_GE(met, 10);
  EXPECT_GE(reached, met / 8);
}

/// The device in the middle is idle before its first input gradient, or does both forwards, and then the
/// first one waits for that gradient.
TEST(Certificate, NoScheduleThereIsIsShorterWhereWarmUpsCannotAllBeFilled) {
  expect_reached_by_some(Argument::warm_ups, true, 60);
}

/// It is idle before its last input gradient, or does a weight gradient, and then the first device waits for
/// it.
TEST(Certificate, NoScheduleThereIsIsShorterWhereCoolDownsCannotAllBeFilled) {
  expect_reached_by_some(Argument::cool_downs, false, 1000);
}

/// F 1, B .97, hops .04: a forward and a gradient meet .05 later on each device, and memory for 2p leaves one
/// forward too many. It is best on the device in the middle, with three others idle on either side.
TEST(Certificate, CountsWhatWarmUpsLeaveInTwiceTheMemoryOf1F1B) {
  Problem problem{
      .devices = 8, .microbatches = 32, .costs = uniform_costs(8, 1, {100, 97, 60, 100, 43}, {.latency = 4})};
  problem.memory_limit.assign(8, 1600);
  const Certificate floor = lower_bound(problem, looped_placement(8), Objective::span);
  EXPECT_EQ(floor.argument, Argument::warm_ups);
  EXPECT_EQ(floor.bound, 32 * (100 + 97 + 60) + 3 * 5);
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
  EXPECT_TRUE(refused([](Certificate& one) { one.argument = Argument{5}; }));
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
