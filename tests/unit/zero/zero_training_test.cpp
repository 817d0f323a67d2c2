// Every stage of ZeRO gives the same bits as plain data parallelism.

#include "support/zero_training.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"

namespace weft::zero {
namespace {

using test::few_under_tsan;
using test::ZeroTraining;
using Result = ZeroTraining::Result;

ZeroTraining in_stage(int stage, ZeroTraining job) {
  job.sharding.stage = stage;
  return job;
}

/// All ways to shard `job` that must not change a bit of the training.
std::vector<ZeroTraining> variants(const ZeroTraining& job) {
  std::vector<ZeroTraining> all;
  for (const int stage : {1, 2, 3}) {
    for (const std::size_t bucket_bytes : few_under_tsan<std::size_t>({4000, 1, 1 << 20}, 1)) {
      for (const bool queued : {false, true}) {
        ZeroTraining one = in_stage(stage, job);
        one.sharding.bucket_bytes = bucket_bytes;
        one.sharding.prefetch_bytes = queued ? 0 : 1 << 20;
        one.queued = queued;
        all.push_back(one);
      }
    }
  }
  return all;
}

void expect_the_same_in_every_stage(const ZeroTraining& job) {
  const Result reference = in_stage(0, job).run();
  for (const float value : reference.parameters) ASSERT_TRUE(std::isfinite(value));
  const auto all = variants(job);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Result result = all[i].run();
    EXPECT_EQ(result.norms, reference.norms) << i;
    EXPECT_EQ(result.skipped, reference.skipped) << i;
    EXPECT_EQ(result.parameters == reference.parameters, true) << i;
    EXPECT_EQ(result.loss_scale, reference.loss_scale) << i;
  }
}

TEST(ZeroTraining, StageZeroIsAdamWOfTheMean) {
  const ZeroTraining job = in_stage(0, {.ranks = 3, .steps = 10});
  const std::vector<float> trained = job.run().parameters;
  const ParamLayout layout = ZeroTraining::layout(DataType::f32);
  const AdamW& adam = std::get<AdamW>(job.optimizer);
  std::size_t at = 0;
  for (int p = 0; p < layout.parameters(); ++p) {
    for (std::int64_t i = 0; i < layout.count(ParamId{p}); ++i, ++at) {
      double value = 0.1F * job.noise(0, 0, ParamId{p}, i);
      double m = 0;
      double v = 0;
      for (int step = 1; step <= job.steps; ++step) {
        double gradient = 0;
        for (int rank = 0; rank < job.ranks; ++rank)
          gradient += (value + job.noise(static_cast<std::uint64_t>(step), rank, ParamId{p}, i)) / job.ranks;
        m = adam.beta1 * m + (1 - adam.beta1) * gradient;
        v = adam.beta2 * v + (1 - adam.beta2) * gradient * gradient;
        const double root = std::sqrt(v / (1 - std::pow(adam.beta2, step)));
        value -= adam.learning_rate *
                 (m / (1 - std::pow(adam.beta1, step)) / (root + adam.epsilon) + adam.weight_decay * value);
      }
      ASSERT_NEAR(trained[at], value, 1e-5) << layout.name(ParamId{p}) << " at " << i;
    }
  }
}

TEST(ZeroTraining, EveryStageHasTheBitsOfDataParallelism) {
  for (const int ranks : few_under_tsan<int>({4, 2, 1}, 1)) expect_the_same_in_every_stage({.ranks = ranks});
}

TEST(ZeroTraining, SoHaveOtherOptimizers) {
  expect_the_same_in_every_stage({.optimizer = Sgd{.learning_rate = 0.05, .momentum = 0.9}});
  expect_the_same_in_every_stage({.optimizer = Adam{.learning_rate = 0.01, .weight_decay = 0.1}});
}

TEST(ZeroTraining, SoHasClipping) {
  ZeroTraining job{.ranks = 3, .stepping = {.clip_norm = 5.0}};
  const Result clipped = in_stage(0, job).run();
  EXPECT_EQ(clipped.norms.size(), 8U);
  EXPECT_GT(clipped.norms.front(), 5) << "there should be something to clip";
  expect_the_same_in_every_stage(job);
  job.stepping = {};
  EXPECT_NE(in_stage(0, job).run().parameters, clipped.parameters);
}

TEST(ZeroTraining, SoHaveSixteenBitsWithEitherMaster) {
  for (const DataType dtype : {DataType::bf16, DataType::f16})
    expect_the_same_in_every_stage(
        {.dtype = dtype, .stepping = {.loss_scale = LossScalerOptions{.initial = 8}}});
  const ZeroTraining split{.steps = 30, .dtype = DataType::bf16, .stepping = {.master = Master::split}};
  expect_the_same_in_every_stage(split);
  ZeroTraining whole = split;
  whole.stepping.master = Master::f32;
  EXPECT_EQ(in_stage(2, split).run().parameters, in_stage(2, whole).run().parameters)
      << "both are the same f32 master, but for ties";
}

TEST(ZeroTraining, OverflowSkipsTheStepOnEveryRankInEveryStage) {
  const ZeroTraining job{
      .ranks = 2,
      .steps = 24,
      .dtype = DataType::f16,
      .stepping = {.clip_norm = 20.0,
                   .loss_scale = LossScalerOptions{.initial = 64, .growth_interval = 4, .hysteresis = 1}},
      .overflow_once_in = 5};
  const Result reference = in_stage(0, job).run();
  EXPECT_GE(reference.skipped.size(), 2U);
  EXPECT_LT(reference.skipped.size(), 12U);
  expect_the_same_in_every_stage(job);
}

TEST(ZeroTraining, ASkippedStepLeavesNoTrace) {
  ZeroTraining job{.steps = 12, .stepping = {.loss_scale = LossScalerOptions{.initial = 4, .hysteresis = 9}}};
  job.overflow_once_in = 4;
  for (const int stage : {0, 3}) {
    const Result with = in_stage(stage, job).run();
    ASSERT_FALSE(with.skipped.empty());
    EXPECT_EQ(with.norms.size() + with.skipped.size(), 12U);
  }
}

TEST(ZeroTraining, MicroStepsAddUp) {
  ZeroTraining job{.micro_steps = 4};
  const Result reference = in_stage(0, job).run();
  EXPECT_EQ(in_stage(1, job).run().parameters == reference.parameters, true);
  for (const int stage : {2, 3}) {
    const Result result = in_stage(stage, job).run();
    for (std::size_t i = 0; i < reference.parameters.size(); ++i)
      ASSERT_NEAR(result.parameters[i], reference.parameters[i], 1e-4) << stage << " at " << i;
  }
}

TEST(ZeroTraining, SmallUnitsMayStayWhole) {
  ZeroTraining job = in_stage(3, {});
  const std::vector<float> reference = job.run().parameters;
  job.sharding.whole_below = 600;
  EXPECT_EQ(job.run().parameters, reference);
}

TEST(ZeroTraining, SendsTwiceTheParametersAndThriceInStageThree) {
  for (const int ranks : {2, 4}) {
    for (const int stage : {0, 1, 2, 3}) {
      ZeroTraining job = in_stage(stage, {.ranks = ranks, .steps = 40});
      job.sharding.prefetch_bytes = 0;
      job.sharding.bucket_bytes = 1 << 20;
      const double parameters = static_cast<double>(ZeroTraining::layout(DataType::f32).size_bytes());
      const double each = (ranks - 1.0) / ranks * parameters * job.steps;
      const double sent = static_cast<double>(job.run().wire_bytes) / each;
      // Units have a few hundred elements, so that gaps matter here. Reading parameters at the end is one
      // more gather.
      EXPECT_GT(sent, stage == 3 ? 2.5 : 1.99) << ranks << " ranks, stage " << stage;
      EXPECT_LT(sent, stage == 3 ? 3.3 : 2.2) << ranks << " ranks, stage " << stage;
    }
  }
}

TEST(ZeroTraining, ShardsMayLieWithinGroupsOfRanks) {
  const std::vector<float> reference = in_stage(0, {.ranks = 4}).run().parameters;
  for (const int stage : {1, 2, 3}) {
    for (const int shard_ranks : {1, 2, 4}) {
      for (const bool queued : {false, true}) {
        ZeroTraining job = in_stage(stage, {.ranks = 4, .stepping = {.clip_norm = 100.0}, .queued = queued});
        job.sharding.shard_ranks = shard_ranks;
        const Result result = job.run();
        for (std::size_t i = 0; i < reference.size(); ++i)
          ASSERT_NEAR(result.parameters[i], reference[i], 1e-5)
              << stage << ", " << shard_ranks << " at " << i;
      }
    }
  }
}

class Refusals : public testing::Test {
 protected:
  static void with(int ranks, ShardedOptions options, const std::function<void(ShardedParams&)>& body) {
    run_as_threads(ranks, [&](Communicator comm) {
      if (options.units.empty()) options.units = ZeroTraining::units();
      ShardedParams params(comm, ZeroTraining::layout(DataType::f32), options);
      body(params);
    });
  }
  static inline const Stream compute;
};

TEST_F(Refusals, AStageThatIsNone) {
  run_as_threads(1, [](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"stage 4", "0, 1, 2 and 3"},
                       [&] { ShardedParams(comm, ZeroTraining::layout(DataType::f32), {.stage = 4}); });
  });
}

TEST_F(Refusals, MoreShardsThanParameters) {
  run_as_threads(4, [](Communicator comm) {
    const ParamLayout layout(DataType::f32, {{"three", 3}});
    test::expect_error(ErrorKind::usage, {"3 parameters over 4 ranks", "stage 0"},
                       [&] { ShardedParams(comm, layout, {.stage = 1}); });
  });
}

TEST_F(Refusals, GroupsOfRanksThatDoNotComeOut) {
  run_as_threads(3, [](Communicator comm) {
    const ParamLayout layout = ZeroTraining::layout(DataType::f32);
    test::expect_error(ErrorKind::usage, {"shards within 2 of 3 ranks"},
                       [&] { ShardedParams(comm, layout, {.stage = 2, .shard_ranks = 2}); });
    test::expect_error(ErrorKind::usage, {"shard_ranks in stage 0"},
                       [&] { ShardedParams(comm, layout, {.stage = 0, .shard_ranks = 3}); });
  });
}

TEST_F(Refusals, AUnitGatheredTwice) {
  for (const int stage : {0, 3}) {
    with(1, {.stage = stage}, [](ShardedParams& params) {
      const Stream stream;
      const Gathered held = params.gather(1, stream);
      test::expect_error(ErrorKind::usage, {"unit 1 (from parameter1)", "twice"},
                         [&] { (void)params.gather(1, stream); });
    });
  }
}

TEST_F(Refusals, AUnitNeverReleased) {
  with(1, {.stage = 3, .prefetch_bytes = 0}, [](ShardedParams& params) {
    const Stream stream;
    const Gathered held = params.gather(1, stream);
    test::expect_error(ErrorKind::usage,
                       {"unit 2", "gather buffers are held: unit 1 (from parameter1)", "held_units"},
                       [&] { (void)params.gather(2, stream); });
    ShardedOptimizer adam(params, AdamW{});
    params.begin_step();
    for (int i = 11; i >= 0; --i) {
      (void)params.gradient(ParamId{i}, stream);
      params.mark_ready(ParamId{i}, stream);
    }
    test::expect_error(ErrorKind::usage, {"unit 1 (from parameter1)", "still held"},
                       [&] { adam.step(stream); });
  });
}

TEST_F(Refusals, WhatCannotBeOptimized) {
  with(1, {.stage = 1}, [](ShardedParams& params) {
    test::expect_error(ErrorKind::usage, {"clip_norm", "-1"},
                       [&] { ShardedOptimizer(params, AdamW{}, {.clip_norm = -1.0}); });
    test::expect_error(ErrorKind::usage, {"split", "f32"},
                       [&] { ShardedOptimizer(params, AdamW{}, {.master = Master::split}); });
    const std::vector<float> wrong(3);
    test::expect_error(ErrorKind::usage, {"parameter2", "3 f32", "427"},
                       [&] { params.load(ParamId{2}, ConstView(std::span(wrong))); });
  });
}

TEST_F(Refusals, GatheringEverythingInStageThree) {
  with(1, {.stage = 3}, [](ShardedParams& params) {
    test::expect_error(ErrorKind::usage, {"gather_all in stage 3"}, [&] { params.gather_all(Stream()); });
  });
}

}  // namespace
}  // namespace weft::zero
