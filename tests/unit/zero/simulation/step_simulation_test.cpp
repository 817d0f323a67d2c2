#include "zero/simulation/step_simulation.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

using Call = StepTape::Call;

const ParamLayout layout(DataType::f32, {{"a", 6400}, {"b", 6400}, {"c", 6400}, {"d", 6400}});

/// Every parameter is a unit and a bucket.
ParamsPlan plan_of(int ranks, int buffers, std::size_t ring = 1 << 20) {
  return ParamsPlan(layout, {.stage = 3,
                             .ranks = ranks,
                             .bucket_bytes = 1,
                             .bucket_ring_bytes = ring,
                             .units = {ParamId{0}, ParamId{1}, ParamId{2}, ParamId{3}},
                             .prefetch_bytes = static_cast<std::size_t>(buffers - 1) * 25600});
}

/// Forward and backward take these times for each unit, the optimizer `update`.
StepTape tape_of(double forward, double backward, double update = 0) {
  StepTape tape{.entries = {}, .rest_seconds = 0, .update_seconds = update};
  for (int unit = 0; unit < 4; ++unit) {
    tape.entries.push_back({Call::use, unit, 0});
    tape.entries.push_back({Call::done, unit, forward});
  }
  for (int unit = 3; unit >= 0; --unit) {
    tape.entries.push_back({Call::use, unit, 0});
    tape.entries.push_back({Call::place, unit, 0});
    tape.entries.push_back({Call::ready, unit, backward});
    tape.entries.push_back({Call::done, unit, 0});
  }
  return tape;
}

WireSeconds wire_of(double gather, double reduce) {
  return {std::vector<double>(4, gather), std::vector<double>(4, reduce)};
}

/// The time of the last step.
double last_step(const ParamsPlan& plan, const std::vector<std::vector<StepTape>>& tapes,
                 const WireSeconds& wire) {
  const auto ends = simulate_steps(plan, tapes, wire).ends;
  return ends[ends.size() - 1] - ends[ends.size() - 2];
}

TEST(StepSimulation, AFreeLinkLeavesComputation) {
  const SimulatedSteps steps = simulate_steps(plan_of(2, 1), {2, {3, tape_of(1, 2, 3)}}, wire_of(0, 0));
  EXPECT_EQ(steps.ends, (std::vector<double>{15, 30, 45}));
  EXPECT_EQ(steps.for_units + steps.for_places + steps.for_means, 0);
}

TEST(StepSimulation, WithoutABufferAheadEveryGatherIsWaitedFor) {
  // Backward begins with the unit that forward used last: 7 gathers in a step. Three of the reductions share
  // the link with a gather that the trainer waits for; it waits for the last reduction itself.
  const SimulatedSteps steps = simulate_steps(plan_of(2, 1), {2, {3, tape_of(1, 2)}}, wire_of(10, 0.5));
  EXPECT_DOUBLE_EQ(steps.ends[1] - steps.ends[0], 7 * 10 + 12 + 4 * 0.5);
  EXPECT_DOUBLE_EQ(steps.for_units, 3 * (70 + 3 * 0.5));
  EXPECT_DOUBLE_EQ(steps.for_means, 3 * 0.5);
}

TEST(StepSimulation, ABufferAheadHidesWhatFitsBehindComputation) {
  // Gathers take as long as the use of a unit: from the second step on only the first gather is exposed.
  // Backward finds its first two units gathered; reductions of 0 s do not occupy the link.
  EXPECT_DOUBLE_EQ(last_step(plan_of(2, 2), {2, {3, tape_of(5, 5)}}, wire_of(5, 0)), 5 + 40);
}

TEST(StepSimulation, GathersAndReductionsShareTheLink) {
  // Backward: while unit 1 is computed, unit 3 is reduced and unit 0 gathered, each for twice as long.
  StepTape tape = tape_of(0, 4);
  const auto plan = plan_of(2, 2);
  const double apart = last_step(plan, {2, {3, tape}}, wire_of(4, 0));
  const double together = last_step(plan, {2, {3, tape}}, wire_of(4, 4));
  EXPECT_GT(together, apart + 4) << "more than the last reduction";
}

TEST(StepSimulation, ARingOfOneBucketMakesEveryGradientWait) {
  const double wide = last_step(plan_of(2, 4), {2, {3, tape_of(0, 1)}}, wire_of(0, 3));
  const double narrow = last_step(plan_of(2, 4, 1), {2, {3, tape_of(0, 1)}}, wire_of(0, 3));
  EXPECT_DOUBLE_EQ(wide, 1 + 4 * 3);
  EXPECT_DOUBLE_EQ(narrow, 4 * (1 + 3));
}

TEST(StepSimulation, WaitsForTheSlowestRank) {
  const std::vector<std::vector<StepTape>> tapes{{3, tape_of(1, 1)}, {3, tape_of(1, 9)}};
  const SimulatedSteps steps = simulate_steps(plan_of(2, 4), tapes, wire_of(0, 0));
  EXPECT_EQ(steps.ends[0], 40);
  EXPECT_EQ(steps.for_means, 3 * (40 - 8) / 2);
}

// Between a lower bound and a schedule that does one thing at a time.
TEST(StepSimulation, LiesBetweenItsBounds) {
  std::mt19937 random(1);
  const auto draw = [&] { return std::uniform_real_distribution<double>(0, 1)(random); };
  for (int trial = 0; trial < 200; ++trial) {
    const ParamsPlan plan = plan_of(3, 1 + trial % 4, trial % 3 == 0 ? 1 : 1 << 20);
    std::vector<std::vector<StepTape>> tapes(3);
    double slowest = 0;
    double all = 0;
    for (auto& steps : tapes) {
      double own = 0;
      for (int step = 0; step < 3; ++step) {
        steps.push_back(tape_of(draw(), draw(), draw()));
        own += std::accumulate(steps.back().entries.begin(), steps.back().entries.end(),
                               steps.back().update_seconds,
                               [](double sum, const auto& entry) { return sum + entry.seconds; });
      }
      slowest = std::max(slowest, own);
      all += own;
    }
    WireSeconds wire;
    double reductions = 0;
    double transfers = 0;
    for (int bucket = 0; bucket < 4; ++bucket) {
      wire.gather.push_back(draw());
      wire.reduce.push_back(draw());
      reductions += 3 * wire.reduce.back();
      transfers += 3 * (2 * wire.gather.back() + wire.reduce.back());
    }
    const SimulatedSteps steps = simulate_steps(plan, tapes, wire);
    EXPECT_GE(steps.ends.back() + 1e-9, std::max(slowest, reductions));
    EXPECT_LE(steps.ends.back(), all + transfers + 1e-9);
  }
}

TEST(StepSimulation, RefusesWhatCannotEnd) {
  StepTape other = tape_of(1, 1);
  std::swap(other.entries[0], other.entries[2]);
  std::swap(other.entries[1], other.entries[3]);
  StepTape unready = tape_of(1, 1);
  unready.entries.pop_back();
  unready.entries.pop_back();
  const auto simulate = [](const ParamsPlan& plan, std::vector<std::vector<StepTape>> tapes) {
    (void)simulate_steps(plan, tapes, wire_of(1, 1));
  };
  test::expect_error(ErrorKind::usage, {"bucket 3 is ready"}, [&] {
    simulate(plan_of(2, 2), {2, {unready}});
  });
  test::expect_error(ErrorKind::usage, {"1 and of 2 steps"}, [&] {
    simulate(plan_of(2, 2), {{1, other}, {2, other}});
  });
  test::expect_error(ErrorKind::usage, {"of stage 3"}, [&] {
    simulate(ParamsPlan(layout, {.stage = 2, .ranks = 2, .bucket_bytes = 1}), {{1, other}});
  });
}

}  // namespace
}  // namespace weft::detail
