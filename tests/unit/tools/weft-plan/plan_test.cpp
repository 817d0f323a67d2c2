// What is counted of a model, and what a plan leaves open.

#include "weft-plan/scale/plan.hpp"

#include <gtest/gtest.h>

#include "weft/core/error.hpp"

namespace weft::scale {
namespace {

TEST(ScaleModel, ParametersAreThoseThatAreKnown) {
  const auto billions = [](const char* name) {
    return static_cast<double>(model_named(name).parameters()) / 1e9;
  };
  EXPECT_NEAR(billions("gpt3-175b"), 174.6, 0.1);
  EXPECT_NEAR(billions("llama3.1-8b"), 8.03, 0.01);
  EXPECT_NEAR(billions("llama3.1-70b"), 70.55, 0.05);
  EXPECT_NEAR(billions("llama3.1-405b"), 405.85, 0.1);
}

/// Narayanan et al. 2021: 96 B s l h^2 (1 + s / 6h + V / 16lh), of which a quarter of the layers' part is
/// recomputed.
TEST(ScaleModel, OperationsAreThoseOfThePaper) {
  const Model model = model_named("gpt3-175b");
  const double b = 7, s = 2048, l = 96, h = 12288, v = 51200;
  const double paper = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  EXPECT_NEAR(4 * l * model.layer_operations(b) + 3 * model.logits_operations(b), paper, 1e-9 * paper);
}

TEST(ScalePlan, StagesShareTheLayers) {
  const Model model = model_named("llama3.1-405b");
  const Plan plan{.pipeline = 8, .virtual_stages = 8};
  std::int64_t sum = 0;
  for (std::int64_t s = 0; s < plan.stages(); ++s) sum += layers_of_stage(model, plan, s);
  EXPECT_EQ(sum, model.layers);
  EXPECT_EQ(layers_of_stage(model, plan, 0), 1);
  EXPECT_EQ(layers_of_stage(model, plan, 1), 2);
  EXPECT_EQ(layers_of_stage(model, plan, 63), 1);
}

TEST(ScalePlan, SoftwareIsTheFirstThatHasWhatIsAskedFor) {
  const Hardware a100 = hardware_named("a100-80g").hardware;
  EXPECT_EQ(software_of(a100, {}).name, "megatron-lm-2021");
  EXPECT_EQ(software_of(a100, {.sequence_parallel = true}).name, "megatron-lm-2022");
  EXPECT_EQ(software_of(a100, {.software = "megatron-core"}).name, "megatron-core");
  EXPECT_EQ(software_of(hardware_named("h100-sxm").hardware, {}).name, "megatron-core");
}

TEST(ScalePlan, LeftOpenStagesInterleaveWhereTheSoftwareDoes) {
  const Model model = model_named("gpt3-175b");
  const Plan plan{.gpus = 512, .tensor = 8, .pipeline = 8, .global_batch = 512};
  EXPECT_EQ(completed(model, hardware_named("a100-80g").hardware, plan).virtual_stages, 1);
  const Plan taken = completed(model, hardware_named("h100-sxm").hardware, plan);
  EXPECT_EQ(taken.virtual_stages, 12);
  EXPECT_EQ(taken.schedule, "interleaved");
}

}  // namespace
}  // namespace weft::scale
