// State on the host gives the same bits as state on the device. The host is the device here.

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"
#include "support/zero_training.hpp"

namespace weft::zero {
namespace {

using test::few_under_tsan;
using test::ZeroTraining;
using Result = ZeroTraining::Result;

/// Ways to offload that must not change a bit of the training; the first three differ in all.
std::vector<ZeroTraining> variants(const ZeroTraining& job) {
  std::vector<ZeroTraining> all;
  const auto add = [&](std::optional<double> share, std::size_t tile_bytes, bool queued, bool says_rate) {
    ZeroTraining one = job;
    one.stepping.offload = {.share = share, .tile_bytes = tile_bytes};
    one.queued = queued;
    one.says_rate = says_rate;
    all.push_back(one);
  };
  add(0.3, 1000, true, false);
  add(1, 1 << 22, false, true);
  add(std::nullopt, 1000, false, true);
  add(0.3, 1, false, true);
  add(0.3, 1 << 22, true, true);
  add(1, 1, true, false);
  add(1, 1000, true, true);
  add(1, 1000, false, false);
  return few_under_tsan(all, 3);
}

void expect_the_same_offloaded(ZeroTraining job, std::initializer_list<int> stages = {0, 1, 2, 3}) {
  for (const int stage : stages) {
    job.sharding.stage = stage;
    const Result reference = job.run();
    EXPECT_EQ(reference.host_bytes, 0);
    const auto all = variants(job);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Result result = all[i].run();
      if (all[i].stepping.offload.share) {
        EXPECT_GT(result.host_bytes, 0);
      }
      EXPECT_EQ(result.norms, reference.norms) << "stage " << stage << ", variant " << i;
      EXPECT_EQ(result.skipped, reference.skipped) << "stage " << stage << ", variant " << i;
      EXPECT_EQ(result.parameters == reference.parameters, true) << "stage " << stage << ", variant " << i;
      EXPECT_EQ(result.loss_scale, reference.loss_scale) << "stage " << stage << ", variant " << i;
    }
  }
}

TEST(Offload, EveryStageHasTheBitsOfTheDevice) {
  for (const int ranks : few_under_tsan<int>({4, 2, 1}, 1))
    expect_the_same_offloaded({.ranks = ranks, .steps = 5});
}

TEST(Offload, SoHaveSmallBuckets) {
  ZeroTraining job{.ranks = 2};
  job.sharding.bucket_bytes = 1000;
  job.sharding.prefetch_bytes = 0;
  expect_the_same_offloaded(job);
}

TEST(Offload, SoHaveOtherOptimizers) {
  expect_the_same_offloaded({.optimizer = Sgd{.learning_rate = 0.05, .momentum = 0.9}}, {2});
  expect_the_same_offloaded({.optimizer = Sgd{.learning_rate = 0.05}}, {0, 2});
}

TEST(Offload, SoHaveSixteenBitsWithEitherMaster) {
  for (const DataType dtype : {DataType::bf16, DataType::f16})
    expect_the_same_offloaded({.dtype = dtype}, {0, 3});
  expect_the_same_offloaded({.dtype = DataType::bf16, .stepping = {.master = Master::split}});
}

TEST(Offload, SoHaveClippingAndSkippedSteps) {
  expect_the_same_offloaded({.ranks = 3, .stepping = {.clip_norm = 5.0}}, {0, 2});
  const ZeroTraining job{
      .steps = 24,
      .dtype = DataType::f16,
      .stepping = {.clip_norm = 20.0,
                   .loss_scale = LossScalerOptions{.initial = 64, .growth_interval = 4, .hysteresis = 1}},
      .overflow_once_in = 5};
  EXPECT_GE(job.run().skipped.size(), 2U);
  expect_the_same_offloaded(job, {1, 3});
}

TEST(Offload, SoHaveMicroSteps) {
  expect_the_same_offloaded({.micro_steps = 3}, {1, 2});
}

TEST(Offload, SoHasStateThatMoves) {
  for (const Master master : {Master::f32, Master::split}) {
    ZeroTraining job{.dtype = DataType::bf16, .stepping = {.master = master}};
    for (const int stage : {0, 1, 3}) {
      job.sharding.stage = stage;
      job.sharding.bucket_bytes = 1000;
      job.offloads = {};
      const std::vector<float> reference = job.run().parameters;
      for (const bool says_rate : {false, true}) {
        ZeroTraining moving = job;
        moving.says_rate = says_rate;
        moving.stepping.offload.tile_bytes = 500;
        moving.offloads = {0.5, 1, 0.3, 0, 0, 0.8, 0.1};
        EXPECT_EQ(moving.run().parameters == reference, true) << "stage " << stage;
      }
    }
  }
}

TEST(Offload, SmallUnitsThatStayWholeAreOffloadedToo) {
  ZeroTraining job;
  job.sharding.whole_below = 600;
  expect_the_same_offloaded(job, {3});
}

TEST(Offload, ParametersAndGradientsOnTheHostChangeNoBit) {
  for (const int ranks : few_under_tsan<int>({4, 2, 1}, 1)) {
    for (const std::optional<double> clip_norm : {std::optional<double>(), std::optional(5.0)}) {
      ZeroTraining job{.ranks = ranks, .steps = 5, .stepping = {.clip_norm = clip_norm}, .micro_steps = 2};
      for (const int stage : {2, 3}) {
        job.sharding = {.stage = stage};
        job.sharding.bucket_bytes = 4000;
        const Result reference = job.run();
        for (const int which : {1, 2, 3, 5, 7}) {
          ZeroTraining one = job;
          one.sharding.offload_gradients = (which & 1) != 0;
          one.sharding.offload_parameters = stage == 3 && (which & 2) != 0;
          one.stepping.offload = {.share = (which & 4) != 0 ? 0.7 : 0, .tile_bytes = 700};
          one.queued = which == 3;
          one.says_rate = true;
          const Result result = one.run();
          EXPECT_EQ(result == reference, true) << ranks << " ranks, stage " << stage << ", " << which;
          if ((which & 4) == 0) {
            EXPECT_EQ(result.held_bytes + result.host_bytes, reference.held_bytes);
            EXPECT_EQ(result.host_bytes > 0, which != 2 || stage == 3);
          }
        }
      }
    }
  }
}

TEST(Offload, RefusesToOffloadWhatIsWhole) {
  run_as_threads(1, [](Communicator comm) {
    const ParamLayout layout = ZeroTraining::layout(DataType::f32);
    test::expect_error(ErrorKind::usage, {"parameters are offloaded in stage 2", "stage 3"},
                       [&] { ShardedParams(comm, layout, {.stage = 2, .offload_parameters = true}); });
    test::expect_error(ErrorKind::usage, {"gradients are offloaded in stage 1", "stage 2 or 3"},
                       [&] { ShardedParams(comm, layout, {.stage = 1, .offload_gradients = true}); });
  });
}

void with(ShardedOptimizerOptions options,
          const std::function<void(ShardedParams&, ShardedOptimizer&)>& body) {
  run_as_threads(1, [&](Communicator comm) {
    ShardedParams params(comm, ZeroTraining::layout(DataType::f32), {.stage = 2});
    ShardedOptimizer adam(params, AdamW{.learning_rate = 1e-2}, options);
    body(params, adam);
  });
}

TEST(Offload, TellsWhatIsWhere) {
  std::int64_t all = 0;
  with({}, [&](ShardedParams&, ShardedOptimizer& adam) {
    all = adam.state_bytes();
    EXPECT_EQ(adam.host_bytes(), 0);
  });
  with({.offload = {.share = 1, .tile_bytes = 4096}}, [&](ShardedParams&, ShardedOptimizer& adam) {
    EXPECT_EQ(adam.state_bytes(), 0);
    EXPECT_EQ(adam.host_bytes(), all / 2 * 3 + 2 * 4096) << "two moments, parameters, two tiles";
  });
  with({.offload = {.share = 0.25}}, [&](ShardedParams&, ShardedOptimizer& adam) {
    EXPECT_NEAR(static_cast<double>(adam.state_bytes()), 0.75 * static_cast<double>(all), 256);
  });
}

TEST(OnReduced, TellsOfEveryBucketBeforeTheStepIsFinished) {
  for (const int stage : {0, 2}) {
    run_as_threads(2, [&](Communicator comm) {
      ShardedOptions options{.stage = stage};
      options.bucket_bytes = 4000;
      ShardedParams params(comm, ZeroTraining::layout(DataType::f32), options);
      Stream compute;
      std::vector<std::pair<std::int64_t, Event>> told;
      params.reducer().on_reduced(
          [&](const Bucket& bucket, const Event& reduced) { told.emplace_back(bucket.begin, reduced); });
      const auto micro_step = [&](Exchange exchange) {
        params.begin_step(exchange);
        for (int i = 11; i >= 0; --i) {
          (void)params.gradient(ParamId{i}, compute);
          params.mark_ready(ParamId{i}, compute);
        }
      };
      micro_step(Exchange::no_sync);
      params.reducer().finish_step(compute);
      EXPECT_TRUE(told.empty()) << "what is not exchanged is not reduced";
      micro_step(Exchange::now);
      const auto& buckets = params.reducer().plan().buckets();
      ASSERT_EQ(told.size(), buckets.size());
      ASSERT_GT(told.size(), 3U);
      for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i].first, buckets[i].begin);
      params.reducer().finish_step(compute);
      for (const auto& [begin, reduced] : told) reduced.wait();
      compute.synchronize();
      params.reducer().on_reduced(nullptr);
    });
  }
}

TEST(Offload, FindsAShareAfterThreeSteps) {
  ZeroTraining job{.steps = 3, .stepping = {.offload = {.share = std::nullopt, .tile_bytes = 4096}}};
  job.sharding.stage = 2;
  job.steps = 2;
  const std::int64_t all = job.run().host_bytes;
  EXPECT_GT(all, 0);
  job.steps = 4;
  // The speed of this machine is not known, but state must be in one place only.
  EXPECT_LE(job.run().host_bytes, all);
}

TEST(Offload, RefusesAShareThatIsNone) {
  run_as_threads(1, [](Communicator comm) {
    ShardedParams params(comm, ZeroTraining::layout(DataType::f32), {.stage = 1});
    for (const double share : {-0.1, 1.1, std::nan("")}) {
      test::expect_error(ErrorKind::usage, {"offload.share", "0 (none) to 1 (all)"},
                         [&] { ShardedOptimizer(params, AdamW{}, {.offload = {.share = share}}); });
    }
  });
}

TEST(Offload, RefusesAnotherRateThanTheStepWasBegunWith) {
  for (const double share : {0.0, 1.0}) {
    with({.offload = {.share = share}}, [](ShardedParams& params, ShardedOptimizer& adam) {
      const Stream stream;
      adam.begin_step(0.5);
      test::expect_error(ErrorKind::usage, {"begin_step with a learning rate of 0.25", "0.5", "step() first"},
                         [&] { adam.begin_step(0.25); });
      test::expect_error(ErrorKind::usage, {"finite"}, [&] { adam.begin_step(-1); });
      params.begin_step();
      for (int i = 11; i >= 0; --i) {
        (void)params.gradient(ParamId{i}, stream);
        params.mark_ready(ParamId{i}, stream);
      }
      if (adam.host_bytes() > 0) {
        test::expect_error(ErrorKind::usage, {"within a step", "step() first"}, [&] { adam.offload(0.5); });
      }
      test::expect_error(ErrorKind::usage, {"rate of 0.25", "begun with 0.5", "the same, or none"},
                         [&] { adam.step(stream, 0.25); });
      adam.step(stream, 0.5);
      Stream(stream).synchronize();
      EXPECT_EQ(adam.steps(), 1);
      adam.begin_step(0.25);
    });
  }
}

}  // namespace
}  // namespace weft::zero
