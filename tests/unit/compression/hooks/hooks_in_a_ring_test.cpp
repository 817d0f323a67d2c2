// Hooks with codecs on gradients in a bucket ring have the bits that they have on an arena.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/sharded_training.hpp"
#include "support/under_tsan.hpp"
#include "unit/compression/training.hpp"
#include "weft/compression/auto_hook.hpp"
#include "weft/compression/codec_hook.hpp"
#include "weft/compression/power_sgd.hpp"

namespace weft {
namespace {

using test::ShardedTraining;
using MakeHook = std::function<std::shared_ptr<CommHook>()>;

// Matrices, vectors, and a matrix that is too small to be compressed, in groups of two.
const ParamLayout layout(DataType::f32, {{"tall", 96 * 40, nullptr, {96, 40}},
                                         {"bias", 40},
                                         {"odd", 37 * 101, nullptr, {37, 101}},
                                         {"other bias", 101},
                                         {"conv", 24 * 8 * 9, nullptr, {24, 8, 9}},
                                         {"small", 3 * 4, nullptr, {3, 4}},
                                         {"last", 50 * 60, nullptr, {50, 60}}});

/// Rings that hold one bucket, or two or three, with ranks and streams of all kinds.
void expect_the_bits_of_an_arena(const MakeHook& hook, ShardedTraining training) {
  const std::int64_t unit = std::lcm<std::int64_t>(32, hook()->granularity());
  training.hook = hook;
  for (const int ranks : test::few_under_tsan<int>({4, 2, 1}, 2)) {
    training.ranks = ranks;
    training.plan = plan_whole_buckets(layout, 1, unit * ranks, {ParamId{2}, ParamId{4}});
    if (ranks == 4) training.plan = plan_whole_buckets(layout, 9000, unit * ranks);
    training.bucket_ring_bytes.reset();
    training.queued_wire = training.queued_compute = false;
    const auto arena = training.run();
    for (const std::size_t bytes : {0U, 25000U}) {
      for (const bool queued : {false, true}) {
        training.bucket_ring_bytes = bytes;
        training.queued_wire = queued;
        training.queued_compute = queued && bytes == 0;
        EXPECT_EQ(test::difference(training.run(), arena), "")
            << hook()->name() << ", " << ranks << " ranks, a ring of " << bytes << (queued ? ", queued" : "");
      }
    }
  }
}

ShardedTraining training_of(int steps) {
  return {.plan = plan_buckets(layout, 1), .steps = steps};
}

TEST(HooksInARing, PowerSgdGivesTheBitsOfAnArena) {
  for (const LowRankForm form : {LowRankForm::two_sided, LowRankForm::alternating}) {
    for (const KeptAs residual : {KeptAs::sixteen_bits, KeptAs::f32}) {
      expect_the_bits_of_an_arena(
          [=] { return power_sgd({.rank = 2, .start_step = 1, .residual = residual, .form = form}); },
          training_of(6));
    }
  }
}

TEST(HooksInARing, PowerSgdWithoutAWarmStartDoesToo) {
  expect_the_bits_of_an_arena([] { return power_sgd({.rank = 2, .start_step = 0, .warm_start = false}); },
                              training_of(4));
}

// NaN that a step left in the bucket ring must not reach the gaps between the parameters of the next bucket
// there.
TEST(HooksInARing, PowerSgdForgetsAStepWithNaNThereToo) {
  ShardedTraining training = training_of(6);
  training.value = [](int rank, int step, int parameter, std::size_t i) {
    if ((step == 0 || step == 3) && parameter == 6 && rank == 0) return NAN;
    return test::any_value(rank, step, parameter, i);
  };
  const MakeHook hook = [] { return power_sgd({.rank = 2, .start_step = 1}); };
  training.plan = plan_whole_buckets(layout, 1, 32);
  training.hook = hook;
  const auto arena = training.run();
  training.bucket_ring_bytes = 0;
  const auto ring = training.run();
  for (std::size_t step = 0; step < arena.size(); ++step) {
    for (std::size_t i = 0; i < arena[step].size(); ++i) {
      if (std::isnan(arena[step][i])) {
        ASSERT_TRUE(std::isnan(ring[step][i])) << "step " << step << ", element " << i;
      } else {
        ASSERT_EQ(ring[step][i], arena[step][i]) << "step " << step << ", element " << i;
      }
    }
  }
}

class EveryCodecInARing : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodecInARing,
                         testing::Values("fp16", "bf16", "fp8-e5m2:stochastic", "int8", "top-k:0.05",
                                         "random-k:0.05"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

TEST_P(EveryCodecInARing, GivesTheBitsOfAnArena) {
  for (const KeptAs residual : {KeptAs::nothing, KeptAs::sixteen_bits}) {
    expect_the_bits_of_an_arena(
        [=] { return codec_hook(codec_named(GetParam()), {.residual = residual, .start_step = 1}); },
        training_of(4));
  }
}

TEST(HooksInARing, ACastInFrontOfAHookHasARingOfItsOwn) {
  expect_the_bits_of_an_arena(
      [] { return cast_hook(DataType::f32, power_sgd({.rank = 2, .start_step = 1})); }, training_of(4));
}

// auto chooses by measured times, so bits may differ later; before the choice every step is the exact mean.
TEST(HooksInARing, AutoObservesAndChoosesThere) {
  ShardedTraining training = training_of(AutoHook::steps_before + 3);
  training.ranks = 2;
  training.plan = plan_whole_buckets(layout, 1, 64);
  training.hook = [] { return auto_hook({.rank = 2}); };
  training.bucket_ring_bytes = 0;
  const auto ring = training.run();
  training.bucket_ring_bytes.reset();
  training.hook = [] { return all_reduce_hook(); };
  const auto plain = training.run();
  for (std::size_t step = 0; step < static_cast<std::size_t>(AutoHook::steps_before); ++step)
    EXPECT_EQ(ring[step], plain[step]) << "step " << step;
}

}  // namespace
}  // namespace weft
