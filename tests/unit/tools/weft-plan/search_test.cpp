// The fastest plans, beside all plans predicted one by one.

#include "weft-plan/scale/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/tools/weft-plan/drawn_plans.hpp"
#include "weft-plan/scale/fitting.hpp"
#include "weft/core/error.hpp"

namespace weft::scale {
namespace {

Model small() {
  return {.name = "gpt",
          .layers = 24,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 32,
          .ffn = 16384,
          .vocabulary = 51200,
          .sequence = 2048};
}

/// Seconds of all plans of the space that fit, ascending.
std::vector<double> all_that_fit(const Model& model, const Hardware& hardware, const Space& space) {
  std::vector<double> all;
  for (const auto tensor : space.tensor) {
    for (const auto pipeline : space.pipeline) {
      for (const auto chunks : space.virtual_stages) {
        for (const auto size : space.micro_batch) {
          for (const int zero : space.zero) {
            for (const auto recompute : space.recompute) {
              for (const bool sequence : space.sequence_parallel) {
                Plan plan = space.base;
                plan.tensor = tensor, plan.pipeline = pipeline, plan.virtual_stages = chunks;
                plan.micro_batch = size, plan.zero = zero, plan.recompute = recompute;
                plan.sequence_parallel = sequence;
                if (plan.gpus % (tensor * pipeline) != 0) continue;
                try {
                  plan = completed(model, hardware, plan);
                  expect_divides(model, hardware, plan);
                } catch (const Error&) {
                  continue;
                }
                if (chunks > 1 && plan.microbatches() % pipeline != 0) continue;
                const Step step = predict(model, hardware, plan);
                if (step.memory.bytes() <= hardware.memory_bytes) all.push_back(step.seconds);
              }
            }
          }
        }
      }
    }
  }
  std::ranges::sort(all);
  return all;
}

TEST(ScaleSearch, FindsWhatPredictingAllPlansFinds) {
  for (const char* name : {"a100-80g", "h100-sxm"}) {
    const Hardware hardware = hardware_named(name).hardware;
    Space space = space_of(small(), hardware, {.gpus = 32, .global_batch = 64}, {});
    space.micro_batch = {1, 2};
    const Search found = search(small(), hardware, space, 5);
    const std::vector<double> all = all_that_fit(small(), hardware, space);
    ASSERT_EQ(found.best.size(), 5u);
    for (std::size_t i = 0; i < found.best.size(); ++i)
      EXPECT_NEAR(found.best[i].step.seconds, all[i], 1e-9 * all[i]) << name << ' ' << i;
    EXPECT_LT(found.predicted, found.plans);
    std::printf("%s: %lld plans, %lld predicted\n", name, static_cast<long long>(found.plans),
                static_cast<long long>(found.predicted));
  }
}

TEST(ScaleSearch, WhatIsGivenStays) {
  const Hardware hardware = hardware_named("a100-80g").hardware;
  const Plan plan{.gpus = 32, .tensor = 4, .global_batch = 64, .zero = 1};
  const Search found =
      search(small(), hardware, space_of(small(), hardware, plan, {.tensor = true, .zero = true}), 8);
  ASSERT_FALSE(found.best.empty());
  for (const Candidate& one : found.best) {
    EXPECT_EQ(one.plan.tensor, 4);
    EXPECT_EQ(one.plan.zero, 1);
  }
}

/// A part of a loser that is as much faster as is said makes it as fast as the best.
TEST(ScaleSearch, SaysWhatWouldHaveToBeFaster) {
  const Hardware hardware = hardware_named("a100-80g").hardware;
  const Search found =
      search(small(), hardware, space_of(small(), hardware, {.gpus = 32, .global_batch = 64}, {}), 20);
  int said = 0;
  for (std::size_t i = 1; i < found.best.size(); ++i) {
    const Candidate& one = found.best[i];
    if (one.faster == 0) continue;
    ++said;
    const auto part = std::ranges::find(one.step.parts, one.loses_by, &Part::name);
    ASSERT_NE(part, one.step.parts.end());
    const double then = one.step.seconds - part->seconds + part->seconds / one.faster;
    EXPECT_NEAR(then, found.best.front().step.seconds, 1e-9);
  }
  EXPECT_GT(said, 0);
}

TEST(ScaleSearch, RefusesWhatNothingDivides) {
  const Hardware hardware = hardware_named("a100-80g").hardware;
  EXPECT_THROW(
      (void)search(small(), hardware, space_of(small(), hardware, {.gpus = 36, .global_batch = 36}, {}), 5),
      Error);
}

/// No plan is below its bounds.
TEST(ScaleSearch, BoundsAreBelow) {
  for (std::uint64_t seed = 100; seed < 300; ++seed) {
    test::Draw draw(seed);
    const test::DrawnPlan drawn = test::draw_plan(draw);
    const auto& [model, hardware, plan] = drawn;
    const Step step = predict(model, hardware, plan);
    EXPECT_LE(least_seconds(model, hardware, plan), step.seconds * (1 + 1e-6)) << seed;
    EXPECT_LE(least_memory(model, hardware, plan).bytes(), step.memory.bytes() * (1 + 1e-9)) << seed;
  }
}

TEST(ScaleFitting, NamesWhatWouldFit) {
  const Hardware hardware = hardware_named("a100-80g").hardware;
  const Model model = model_named("gpt3-175b");
  const Plan plan = completed(model, hardware,
                              {.gpus = 64, .tensor = 8, .pipeline = 8, .micro_batch = 4, .global_batch = 64});
  EXPECT_GT(predict(model, hardware, plan).memory.bytes(), hardware.memory_bytes);
  const auto words = what_would_fit(model, hardware, plan);
  EXPECT_NE(std::ranges::find(words, "--recompute full"), words.end());
  EXPECT_EQ(std::ranges::find(words, "--zero 1"), words.end());  // one data-parallel rank: nothing to cut
}

}  // namespace
}  // namespace weft::scale
