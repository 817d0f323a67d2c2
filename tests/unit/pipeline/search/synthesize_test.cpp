#include "weft/pipeline/synthesize.hpp"

#include <gtest/gtest.h>

#include "support/draw.hpp"
#include "support/expect_error.hpp"
#include "unit/pipeline/search/all_schedules.hpp"
#include "unit/pipeline/search/drawn_problems.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/simulate.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::pipeline {
namespace {

/// F = B = W = 1 on 8 devices, memory in microbatches, all of it kept until the weights or given back before.
Problem alike(int microbatches, int chunks, int memory, bool kept = true) {
  Problem problem{.devices = 8,
                  .microbatches = microbatches,
                  .costs = uniform_costs(8, chunks, {40, 40, 40, 40, kept ? 40 : 0})};
  problem.memory_limit.assign(8, memory * 40);
  return problem;
}

double bubble(const Synthesis& found, Objective objective) {
  const Prediction predicted = simulate(found.schedule, found.problem);
  return objective == Objective::makespan ? predicted.bubble_makespan() : predicted.bubble_span();
}

TEST(Synthesize, StagesAlikeLeaveTheSmallestBubblesThereAre) {
  const Synthesis two = synthesize(alike(8, 2, 8));
  EXPECT_NEAR(bubble(two, Objective::makespan), 0.1273, 0.00005);
  EXPECT_EQ(two.gap(), 0);
  const Synthesis four = synthesize(alike(8, 4, 8));
  EXPECT_NEAR(bubble(four, Objective::makespan), 0.0680, 0.00005);
  EXPECT_EQ(four.gap(), 0);
}

TEST(Synthesize, LeavesNoBubbleWhereStepsMayFollowEachOther) {
  EXPECT_EQ(bubble(synthesize(alike(32, 1, 16, false), {.objective = Objective::span}), Objective::span), 0);
  EXPECT_EQ(bubble(synthesize(alike(32, 2, 8), {.objective = Objective::span}), Objective::span), 0);
}

TEST(Synthesize, IsProvedBestForStagesAlikeInTheMemoryOf1F1B) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    test::Draw draw(seed);
    const int devices = 2 + draw.below(15);
    Problem problem{
        .devices = devices, .microbatches = 2 * devices + 1 + draw.below(3 * devices), .costs = {}};
    problem.costs = uniform_costs(devices, 1, {100, 100, 100, 10, 10}, {.latency = draw.below(51)});
    problem.memory_limit.assign(static_cast<std::size_t>(devices), devices * 10);
    for (const Objective objective : {Objective::makespan, Objective::span})
      EXPECT_EQ(synthesize(problem, {.objective = objective}).gap(), 0) << "seed " << seed;
  }
}

/// Forwards must not wait on their way, which takes weight gradients that are put off on every device but the
/// first.
TEST(Synthesize, IsProvedBestBySpanWhereHopsAreShortWhateverTheCosts) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    test::Draw draw(seed);
    const int devices = 2 + draw.below(15);
    Problem problem{
        .devices = devices, .microbatches = 2 * devices + 1 + draw.below(4 * devices), .costs = {}};
    const int weight = 1 + draw.below(100), latency = draw.below(weight / 2 + 1);
    const int forward = std::max(1 + draw.below(100), weight - 2 * latency);
    problem.costs =
        uniform_costs(devices, 1, {forward, 1 + draw.below(100), weight, 10, 10}, {.latency = latency});
    problem.memory_limit.assign(static_cast<std::size_t>(devices), devices * 10);
    const Synthesis found = synthesize(problem, {.objective = Objective::span});
    EXPECT_EQ(found.gap(), 0) << "seed " << seed;
    EXPECT_FALSE(find_fault(found.schedule, found.problem)) << "seed " << seed;
  }
}

/// In twice the memory of 1F1B, with 57 % of an activation released by its input gradient: what warm-ups
/// leave idle is all there is.
TEST(Synthesize, IsProvedBestBySpanInTwiceTheMemoryOf1F1B) {
  struct Case {
    int devices, microbatches;
    Nanoseconds weight, latency;
  };
  for (const Case& one :
       {Case{8, 32, 60, 4}, Case{8, 64, 50, 3}, Case{12, 36, 70, 3}, Case{12, 72, 65, 4}, Case{16, 48, 70, 5},
        Case{16, 64, 60, 4}, Case{24, 72, 67, 3}, Case{32, 96, 70, 4}}) {
    Problem problem{.devices = one.devices, .microbatches = one.microbatches, .costs = {}};
    problem.costs = uniform_costs(one.devices, 1, {100, 97, one.weight, 100, 43}, {.latency = one.latency});
    problem.memory_limit.assign(static_cast<std::size_t>(one.devices), 200 * one.devices);
    const Synthesis found = synthesize(problem, {.objective = Objective::span});
    EXPECT_EQ(found.gap(), 0) << one.devices << " devices, " << one.microbatches << " microbatches";
    EXPECT_FALSE(find_fault(found.schedule, found.problem));
  }
}

TEST(Synthesize, FindsNoWorseWithMoreEffort) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    test::Draw draw(seed);
    const test::PipelineProblem drawn = test::draw_pipeline(draw, {.most_devices = 6, .chunks = 1});
    const auto length = [&](double effort) {
      return synthesize(drawn.problem, {.objective = drawn.objective, .effort = effort}).length;
    };
    EXPECT_LE(length(0.5), length(0.1)) << described(drawn);
  }
}

/// In the memory of 1F1B, where all wait for it round by round.
TEST(Synthesize, IsProvedBestWhereHopsAreLong) {
  struct Case {
    int devices, microbatches;
    Nanoseconds forward, backward_input, backward_weight, latency;
    Bytes kept;  // of 2
  };
  for (const Case& one :
       {Case{3, 9, 74, 51, 27, 19, 2}, Case{4, 20, 93, 75, 36, 19, 2}, Case{4, 20, 77, 9, 11, 9, 2},
        Case{5, 28, 63, 2, 35, 25, 2}, Case{4, 23, 7, 38, 25, 44, 2}, Case{6, 23, 60, 27, 42, 79, 2},
        Case{3, 18, 72, 75, 29, 71, 1}, Case{4, 24, 25, 35, 21, 60, 1}, Case{3, 15, 25, 75, 19, 27, 0},
        Case{4, 23, 94, 96, 27, 72, 0}, Case{3, 15, 51, 15, 5, 14, 0}, Case{2, 6, 49, 71, 89, 129, 1},
        Case{2, 5, 22, 74, 90, 128, 1}}) {
    Problem problem{.devices = one.devices, .microbatches = one.microbatches, .costs = {}};
    problem.costs =
        uniform_costs(one.devices, 1, {one.forward, one.backward_input, one.backward_weight, 2, one.kept},
                      {.latency = one.latency});
    problem.memory_limit.assign(static_cast<std::size_t>(one.devices), one.devices * 2);
    for (const Objective objective : {Objective::makespan, Objective::span}) {
      const Synthesis found = synthesize(problem, {.objective = objective});
      EXPECT_EQ(found.gap(), 0) << one.forward << ' ' << found.certificate;
    }
  }
}

TEST(Synthesize, WhatItFindsIsValidAndNoLongerThanAnyNamedSchedule) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    test::Draw draw(seed);
    const test::PipelineProblem drawn = test::draw_pipeline(draw, {.most_devices = 12});
    const Synthesis found = synthesize(drawn.problem, {.objective = drawn.objective});
    const auto fault = find_fault(found.schedule, found.problem);
    ASSERT_FALSE(fault) << "seed " << seed << ", " << described(drawn) << ": " << *fault;
    EXPECT_TRUE(holds(found.certificate, found.floor_problem, found.floor_placement)) << "seed " << seed;
    const Prediction predicted = simulate(found.schedule, found.problem);
    EXPECT_EQ(found.length, predicted.length(drawn.objective));
    for (const NamedSchedule& one : named_schedules()) {
      if (!one.suits(drawn.problem)) continue;
      try {
        const Schedule named = one.make(drawn.problem);
        if (find_fault(named, drawn.problem)) continue;  // more memory than there is
        const Prediction other = simulate(named, drawn.problem);
        EXPECT_LE(found.length, other.length(drawn.objective))
            << one.name << ", seed " << seed << ", " << described(drawn);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
      }
    }
  }
}

TEST(Synthesize, IsNeverShorterThanTheShortestThereIsAndMostlyEqualsIt) {
  int equal = 0;
  constexpr int trials = 20;
  for (std::uint64_t seed = 100; seed < 100 + trials; ++seed) {
    test::Draw draw(seed);
    const test::SmallProblem small = test::draw_problem(draw);
    const Synthesis found =
        synthesize(small.problem,
                   {.fewer_chunks = false,
                    .shapes = {small.device_of == v_placement(small.problem.devices, small.problem.chunks())
                                   ? Shape::v
                                   : Shape::looped}});
    const Nanoseconds shortest = test::shortest(small, Objective::makespan);
    EXPECT_GE(found.length, shortest) << "seed " << seed;
    equal += found.length == shortest ? 1 : 0;
  }
  EXPECT_GE(equal, trials * 3 / 4);
}

TEST(Synthesize, IsTheSameEveryTime) {
  test::Draw draw(3);
  const test::PipelineProblem drawn = test::draw_pipeline(draw);
  EXPECT_EQ(synthesize(drawn.problem).schedule, synthesize(drawn.problem).schedule);
}

TEST(Synthesize, RefusesWhatCannotBe) {
  Problem problem = alike(4, 1, 8);
  problem.microbatches = 0;
  test::expect_error(ErrorKind::usage, {"0 microbatches"}, [&] { synthesize(problem); });
  problem = alike(4, 1, 8);
  problem.memory_limit[3] = 39;
  test::expect_error(ErrorKind::usage, {"device 3", "39 bytes", "below one microbatch"},
                     [&] { synthesize(problem); });
  problem = alike(4, 1, 8);
  test::expect_error(ErrorKind::usage, {"an effort of 0", "above 0"},
                     [&] { synthesize(problem, {.effort = 0}); });
  problem.costs.hops.pop_back();
  test::expect_error(ErrorKind::usage, {"6 hops between 8 stages"}, [&] { synthesize(problem); });
  problem = alike(2, 2, 8);  // whose stages are joined before they are looked at
  problem.costs.hops.clear();
  test::expect_error(ErrorKind::usage, {"0 hops between 16 stages"}, [&] { synthesize(problem); });
  problem = alike(4, 1, 8);
  problem.costs.stages[2].forward = 0;
  test::expect_error(ErrorKind::usage, {"stage 2", "forward (ns) is 0"}, [&] { synthesize(problem); });
}

}  // namespace
}  // namespace weft::pipeline
