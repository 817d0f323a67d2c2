// Steps of plans: beside the obvious way to compute them, and what has to hold for any.

#include "weft-plan/scale/step.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/tools/weft-plan/drawn_plans.hpp"

namespace weft::scale {
namespace {

/// The bubble of Narayanan et al. 2021, section 2.2: (p - 1) / (m v) of the work, where stages are alike.
TEST(ScaleStep, TheBubbleIsThatOfTheSchedule) {
  const Model model{.name = "gpt",
                    .layers = 32,
                    .hidden = 4096,
                    .heads = 32,
                    .kv_heads = 32,
                    .ffn = 16384,
                    .vocabulary = 8,
                    .sequence = 2048};
  Hardware hardware = hardware_named("a100-80g").hardware;
  hardware.node.rate = hardware.network.rate = 1e30;
  hardware.node.latency = hardware.network.latency = hardware.collective_latency = 0;
  for (const std::int64_t v : {1, 2, 4}) {
    const Plan plan =
        completed(model, hardware, {.gpus = 8, .pipeline = 8, .virtual_stages = v, .global_batch = 32});
    const Step step = predict(model, hardware, plan);
    double bubble = 0, work = 0;
    for (const Part& part : step.parts)
      (part.name == "bubble" ? bubble : work) += part.name == "optimizer" ? 0 : part.seconds;
    EXPECT_NEAR(bubble / work, 7.0 / (32 * static_cast<double>(v)), 0.01) << v;
  }
}

/// 126 layers in 128 stages: the first has the embedding alone, and the last the logits.
TEST(ScaleStep, StagesAtTheEndsMayHaveNoLayer) {
  const Model model = model_named("llama3.1-405b");
  const Hardware hardware = hardware_named("h100-sxm").hardware;
  Plan plan{.gpus = 1024,
            .tensor = 8,
            .pipeline = 16,
            .virtual_stages = 8,
            .global_batch = 256,
            .zero = 1,
            .sequence_parallel = true};
  plan = completed(model, hardware, plan);
  expect_divides(model, hardware, plan);
  const Step many = predict(model, hardware, plan);
  plan.virtual_stages = 4;
  EXPECT_NEAR(many.seconds, predict(model, hardware, plan).seconds, 0.1 * many.seconds);
}

/// Second by second.
double slow_beyond(const std::vector<Piece>& ready, double end) {
  int left = 0;
  for (const Piece& piece : ready) left += static_cast<int>(piece.seconds);
  std::vector<Piece> pieces = ready;
  int now = 0;
  for (; left > 0; ++now) {
    const auto next = std::ranges::find_if(pieces, [&](const Piece& piece) { return piece.seconds > 0; });
    if (next->when > now) continue;
    next->seconds -= 1;
    --left;
  }
  return std::max(0.0, now - end);
}

TEST(ScaleStep, WhatIsExposedIsWhatAClockWouldShow) {
  test::Draw draw(7);
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<Piece> pieces;
    double when = 0;
    for (int i = 0; i < 1 + draw.below(6); ++i) {
      when += draw.below(5);
      pieces.push_back({when, static_cast<double>(1 + draw.below(6))});
    }
    EXPECT_EQ(beyond(pieces, when), slow_beyond(pieces, when));
    double late = 0, arrived = 0;
    for (const Piece& piece : pieces) {
      arrived += piece.seconds;
      while (piece.when + late < arrived) late += 1;
    }
    EXPECT_EQ(delay(pieces), late);
  }
}

TEST(ScaleStep, HoldsForPlansDrawnAtRandom) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    test::Draw draw(seed);
    const test::DrawnPlan drawn = test::draw_plan(draw);
    EXPECT_EQ(what_fails(drawn), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft::scale
