#include "weft/pipeline/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

using std::chrono::microseconds;

/// A stage whose functions take at least the given times.
class SleepingStage final : public Stage {
 public:
  SleepingStage(int number, int stages, microseconds forward)
      : number_(number), stages_(stages), forward_(forward) {}

  Boundary input() const override { return {DataType::f32, number_ == 0 ? 0 : 10}; }
  Boundary output() const override { return {DataType::f32, number_ + 1 == stages_ ? 0 : 10}; }
  void forward(const MicrobatchValues& of, const Stream&) override {
    EXPECT_EQ(of.input.count(), input().count);
    EXPECT_EQ(of.output.count(), output().count);
    std::this_thread::sleep_for(forward_);
    ++forwards;
  }
  void backward_input(const MicrobatchValues& of, const Stream&) override {
    EXPECT_EQ(of.output_gradient.count(), output().count);
    EXPECT_EQ(of.input_gradient.count(), input().count);
    std::this_thread::sleep_for(2 * forward_);
  }
  void backward_weight(const MicrobatchValues&, const Stream&) override {
    std::this_thread::sleep_for(3 * forward_);
  }

  int forwards = 0;

 private:
  int number_, stages_;
  microseconds forward_;
};

TEST(Profile, EveryRankGetsTheCostsOfAllStages) {
  std::vector<Costs> costs(3);
  run_as_threads(3, [&](Communicator comm) {
    SleepingStage first(0, 3, microseconds(100)), second(1, 3, microseconds(200)),
        third(2, 3, microseconds(300));
    std::vector<Stage*> mine{comm.rank() == 2 ? &first : nullptr, comm.rank() != 1 ? &second : nullptr,
                             comm.rank() == 1 ? &third : nullptr};
    costs[static_cast<std::size_t>(comm.rank())] = measured_costs(comm, mine, Stream(), {.repetitions = 3});
    EXPECT_EQ(first.forwards, comm.rank() == 2 ? 4 : 0);
  });
  EXPECT_EQ(costs[1], costs[0]);
  EXPECT_EQ(costs[2], costs[0]);
  ASSERT_EQ(costs[0].stages.size(), 3U);
  ASSERT_EQ(costs[0].hops.size(), 2U);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    const auto least = static_cast<Nanoseconds>(stage + 1) * 100'000;
    EXPECT_GE(costs[0].stages[stage].forward, least);
    EXPECT_GE(costs[0].stages[stage].backward_input, 2 * least);
    EXPECT_GE(costs[0].stages[stage].backward_weight, 3 * least);
    EXPECT_EQ(costs[0].stages[stage].activation, 0);
  }
  EXPECT_GT(costs[0].hops[0].latency, 0);
  EXPECT_NO_THROW(expect_valid({.devices = 3, .microbatches = 4, .costs = costs[0]}, {0, 1, 2}));
}

TEST(Profile, OneRankHasNoWay) {
  SleepingStage first(0, 2, microseconds(1)), second(1, 2, microseconds(1));
  const Costs costs = measured_costs(self(), {&first, &second}, Stream());
  EXPECT_EQ(costs.hops, std::vector<Hop>(1));
}

TEST(Profile, AStageThatNobodyHasIsRefusedOnEveryRank) {
  run_as_threads(2, [](Communicator comm) {
    SleepingStage first(0, 2, microseconds(1));
    EXPECT_THAT(
        [&] {
          measured_costs(comm, {&first, nullptr}, Stream());
        },
        testing::ThrowsMessage<Error>(testing::HasSubstr("stage 1 of 2 is measured by no rank")));
  });
  SleepingStage first(0, 1, microseconds(1));
  EXPECT_THAT([&] { measured_stage(first, Stream(), {.repetitions = 0}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("costs of 0 repetitions")));
}

}  // namespace
}  // namespace weft::pipeline
