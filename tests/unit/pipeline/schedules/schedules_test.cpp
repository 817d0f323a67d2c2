#include "weft/pipeline/schedules.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "unit/pipeline/simulate/slow_simulation.hpp"
#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

/// F = B = W = 1 on a device, in parts of a chunk each; an activation of a whole device is `chunks` bytes.
Problem units(int devices, int chunks, int microbatches) {
  return {.devices = devices,
          .microbatches = microbatches,
          .costs = uniform_costs(devices, chunks, {chunks, chunks, chunks, chunks, chunks})};
}

/// Random stages and delays and, in most cases, a memory limit.
Problem random_problem(std::mt19937& random, int chunks) {
  const auto any = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  const int devices = any(1, 7);
  Problem problem = units(devices, chunks, any(1, 24));
  for (StageCosts& stage : problem.costs.stages) {
    stage = {any(1, 20), any(1, 20), any(1, 20), any(1, 9), 0};
    stage.kept_for_weight = any(0, static_cast<int>(stage.activation));
  }
  const int latency = any(0, 2) * any(0, 20);
  for (Hop& hop : problem.costs.hops) hop = {.latency = latency, .occupancy = any(0, 3)};
  if (any(0, 3) > 0) problem.memory_limit.assign(static_cast<std::size_t>(devices), 9 * chunks + any(0, 80));
  return problem;
}

struct Figure {
  const char* name;
  int chunks, microbatches;
  double bubble_makespan, bubble_span, memory;  // in microbatches of a whole device
};

TEST(NamedSchedules, ReachThePublishedFiguresOnEightDevices) {
  const Figure figures[] = {
      {"gpipe", 1, 8, .4667, .4667, 8},        {"gpipe", 1, 32, .1795, .1795, 32},
      {"1f1b", 1, 8, .4667, .4667, 8},         {"1f1b", 1, 32, .1795, .1795, 8},
      {"eager-1f1b", 1, 8, .4667, .4667, 8},   {"eager-1f1b", 1, 32, .1795, .1795, 15},
      {"interleaved", 2, 8, .3043, .3043, 8},  {"interleaved", 2, 32, .0986, .0986, 11.5},
      {"interleaved", 4, 8, .1795, .1795, 8},  {"interleaved", 4, 32, .0519, .0519, 9.75},
      {"looped-bfs", 2, 8, .3043, .3043, 8},   {"looped-bfs", 2, 32, .0986, .0986, 32},
      {"looped-bfs", 4, 8, .1795, .1795, 8},   {"looped-bfs", 4, 32, .0519, .0519, 32},
      {"zb-h1", 1, 8, .2258, .2258, 8},        {"zb-h1", 1, 32, .0680, .0680, 8},
      {"zb-h2", 1, 8, .2258, .2258, 8},        {"zb-h2", 1, 32, .0680, .0, 15},
      {"zb-v", 2, 8, .1273, .1273, 8},         {"zb-v", 2, 32, .0352, .0, 8},
      {"v-half", 2, 8, .2615, .2615, 5},       {"v-half", 2, 32, .0813, .0813, 5},
      {"v-min", 2, 8, .3239, .3239, 4},        {"v-min", 2, 32, .1070, .1070, 4},
      {"dualpipe-v", 2, 32, .0680, .0680, 8.5}};
  for (const Figure& figure : figures) {
    const Problem problem = units(8, figure.chunks, figure.microbatches);
    const Schedule schedule = make_named(figure.name, problem);
    const SlowFigures slow = SlowSimulation(schedule, problem).run();
    const std::string which = text(figure.name, ", ", figure.chunks, " chunks, m = ", figure.microbatches);
    ASSERT_TRUE(slow.complete) << which;
    EXPECT_EQ(schedule.name, figure.name);
    EXPECT_NEAR(slow.bubble_makespan(), figure.bubble_makespan, 5e-5) << which;
    EXPECT_NEAR(slow.bubble_span(), figure.bubble_span, 5e-5) << which;
    EXPECT_EQ(static_cast<double>(slow.most_memory()) / figure.chunks, figure.memory) << which;
  }
}

TEST(NamedSchedules, GreedyUsesTheMemoryThereIs) {
  const auto bubbles = [](Bytes limit, int microbatches) {
    Problem problem = units(8, 1, microbatches);
    problem.memory_limit.assign(8, limit);
    const SlowFigures slow = SlowSimulation(zero_bubble_greedy(problem), problem).run();
    EXPECT_LE(slow.most_memory(), limit);
    return std::pair(std::round(slow.bubble_makespan() * 1e4), std::round(slow.bubble_span() * 1e4));
  };
  EXPECT_EQ(bubbles(8, 8), (std::pair(2258., 2258.)));
  EXPECT_EQ(bubbles(8, 32), (std::pair(680., 680.)));
  EXPECT_EQ(bubbles(12, 32), (std::pair(680., 303.)));
  EXPECT_EQ(bubbles(16, 32), (std::pair(680., 0.)));
}

TEST(NamedSchedules, EndWhereverTheySuit) {
  std::mt19937 random(1);
  std::vector<int> made(named_schedules().size());
  for (int trial = 0; trial < 150; ++trial) {
    const Problem problem = random_problem(random, 1 + trial % 3);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const NamedSchedule& one = named_schedules()[i];
      const std::string which = text(one.name, " in trial ", trial);
      if (!one.suits(problem)) {
        EXPECT_THROW(one.make(problem), Error) << which;
        continue;
      }
      ++made[i];
      const Schedule schedule = one.make(problem);
      EXPECT_EQ(schedule.name, one.name);
      EXPECT_EQ(schedule, one.make(problem)) << which;
      const SlowFigures slow = SlowSimulation(schedule, problem).run();
      ASSERT_TRUE(slow.complete) << which << '\n' << schedule;
      for (std::size_t device = 0; device < problem.memory_limit.size(); ++device)
        EXPECT_LE(slow.peak[device], problem.memory_limit[device]) << which;
    }
  }
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_GT(made[i], 10) << named_schedules()[i].name;
}

TEST(NamedSchedules, TakeAnyNumberOfMicrobatches) {
  for (const NamedSchedule& one : named_schedules()) {
    for (int chunks = 1; chunks <= 3; ++chunks) {
      for (int devices = 1; devices <= 6; ++devices) {
        for (int microbatches = 1; microbatches <= 14; ++microbatches) {
          const Problem problem = units(devices, chunks, microbatches);
          if (!one.suits(problem)) continue;
          EXPECT_TRUE(SlowSimulation(one.make(problem), problem).run().complete)
              << text(one.name, ", ", devices, " devices of ", chunks, ", m = ", microbatches);
        }
      }
    }
  }
}

TEST(NamedSchedules, EagerOneFOneBHidesARoundTrip) {
  Problem problem = units(8, 1, 64);
  for (StageCosts& stage : problem.costs.stages) stage = {10, 10, 10, 1, 1};
  for (Hop& hop : problem.costs.hops) hop.latency = 4;
  const auto makespan = [&](const Schedule& schedule) {
    return SlowSimulation(schedule, problem).run().makespan;
  };
  EXPECT_EQ(makespan(eager_one_f_one_b(problem)), 64 * 30 + 7 * (10 + 20 + 2 * 4));
  EXPECT_GT(makespan(one_f_one_b(problem)), makespan(eager_one_f_one_b(problem)));
  problem.memory_limit.assign(8, 8);  // as much as 1F1B takes: no microbatch may go around alone
  EXPECT_LE(makespan(eager_one_f_one_b(problem)), makespan(one_f_one_b(problem)));
  problem.memory_limit.assign(8, 2);
  const Schedule tight = eager_one_f_one_b(problem);
  EXPECT_EQ(SlowSimulation(tight, problem).run().most_memory(), 2);
}

TEST(NamedSchedules, ZbH1IsAtItsBoundWithDelays) {
  // (p - 1)(F + B - W + 4c) of bubble, proved least at p activations.
  Problem problem = units(8, 1, 32);
  for (StageCosts& stage : problem.costs.stages) stage = {20, 20, 20, 1, 1};
  for (Hop& hop : problem.costs.hops) hop.latency = 1;
  EXPECT_EQ(SlowSimulation(zb_h1(problem), problem).run().span, 32 * 60 + 7 * (20 + 4));
}

TEST(NamedSchedules, SayWhatTheyNeed) {
  const auto says = [](std::string_view name, const Problem& problem) -> std::string {
    try {
      make_named(name, problem);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(says("1f1b", units(4, 2, 8)),
            "weft: 1f1b has 1 chunk on a device, and the costs of 8 stages make 2 on each of 4 devices; give "
            "costs of 4 stages");
  EXPECT_EQ(
      says("interleaved", units(4, 1, 8)),
      "weft: interleaved has 2 or more chunks on a device, and the costs of 4 stages make 1 on each of 4 "
      "devices; give costs of 8 stages, or of a larger multiple of 4");
  EXPECT_EQ(says("dualpipe-v", units(4, 2, 7)),
            "weft: dualpipe-v takes 8 microbatches or more on 4 devices, and there are 7; give more, or take "
            "zb-v, which has no such bound");
  Problem tight = units(4, 1, 8);
  tight.memory_limit = {8, 8, 8, 3};
  EXPECT_EQ(
      says("gpipe", tight),
      "weft: gpipe holds 8 bytes of activations on device 3, where the limit is 3; allow as much, or take "
      "a schedule that adapts to its memory, such as zb-greedy or zb-v");
  EXPECT_EQ(says("zb-h3", tight), "weft: no schedule is named 'zb-h3'; did you mean zb-h1?");
  EXPECT_EQ(says("foo", tight),
            "weft: no schedule is named 'foo'; allowed are gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, "
            "zb-h1, zb-h2, zb-v, v-half, "
            "v-min, dualpipe-v, zb-greedy");
  for (const NamedSchedule& one : named_schedules()) {
    for (const int chunks : {1, 2, 3})
      EXPECT_EQ(one.suits(units(4, chunks, 16)), chunks >= one.fewest_chunks && chunks <= one.most_chunks)
          << one.name << ' ' << chunks;
  }
  EXPECT_NE(says("zb-h1", {.devices = 0, .microbatches = 1, .costs = {}}).find("0 devices"),
            std::string::npos);
  for (const NamedSchedule& one : named_schedules()) {
    EXPECT_NE(says(one.name, units(4, 1, 0)).find("0 microbatches"), std::string::npos);
    EXPECT_NE(says(one.name, {.devices = -1, .microbatches = 1, .costs = {}}).find("-1 devices"),
              std::string::npos);
    EXPECT_NE(says(one.name, {.devices = 2, .microbatches = 1, .costs = {}}).find("costs of 0 stages"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace weft::pipeline
