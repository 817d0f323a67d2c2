#include "weft-scaling/gpt/pipeline/pipeline_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "weft-scaling/gpt/trainer/reference.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<pipeline::StageCosts> costing(const std::vector<int>& forwards) {
  std::vector<pipeline::StageCosts> units;
  for (const int forward : forwards)
    units.push_back({.forward = forward, .backward_input = 1, .backward_weight = 1, .activation = 1});
  return units;
}

TEST(PipelinePlan, TheLongestStageIsAsShortAsCanBe) {
  EXPECT_THAT(balanced_cut(costing({5, 5, 5, 5}), 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(balanced_cut(costing({1, 1, 1, 9}), 2), ElementsAre(0, 3, 4));
  EXPECT_THAT(balanced_cut(costing({9, 1, 1, 1}), 4), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(balanced_cut(costing({3, 4, 5}), 1), ElementsAre(0, 3));
  EXPECT_THAT(
      [] {
        balanced_cut(costing({1, 1}), 3);
      },
      testing::ThrowsMessage<Error>(HasSubstr("3 stages of a model of 2 units")));
}

PipelineTask task() {
  const GptSizes sizes = gpt_sizes(model_spec("gpt-ref"));
  return {.devices = 2, .microbatches = 8, .units = estimated_costs(sizes, 1)};
}

TEST(PipelinePlan, EveryNamedScheduleHasAsManyChunksAsItIsMadeFor) {
  for (const pipeline::NamedSchedule& one : pipeline::named_schedules()) {
    const PipelinePlan plan = named_plan(one.name, task());
    const std::vector<std::string_view> chunked{"interleaved", "looped-bfs", "zb-v",
                                                "v-half",      "v-min",      "dualpipe-v"};
    const bool is_chunked = std::ranges::find(chunked, one.name) != chunked.end();
    EXPECT_EQ(plan.schedule.stages(), is_chunked ? 4 : 2) << one.name;
    EXPECT_EQ(std::ssize(plan.cut), plan.schedule.stages() + 1) << one.name;
  }
}

TEST(PipelinePlan, WhatIsFoundIsNoLongerThanTheNamedOnesAndCompleteWithAllItTakes) {
  PipelineTask one = task();
  const PipelinePlan plan = found_plan(one);
  for (const bool recompute : {false, true}) {
    const pipeline::Schedule whole =
        completed(plan.schedule, {.recompute = recompute, .sharded_parameters = true});
    const pipeline::Problem any{
        .devices = 2,
        .microbatches = 8,
        .costs = pipeline::uniform_costs(2, plan.schedule.stages() / 2,
                                         {.forward = 9, .backward_input = 9, .backward_weight = 9})};
    EXPECT_NO_THROW(pipeline::verify(whole, any));
    EXPECT_EQ(reduced_order(whole, 0).size(), static_cast<std::size_t>(plan.schedule.stages() / 2));
    EXPECT_GE(whole_at_once(whole, 0), 1);
  }
}

TEST(PipelinePlan, AStageIsAskedToHoldWhatItsRowHolds) {
  const pipeline::Schedule plain = named_plan("1f1b", task()).schedule;
  EXPECT_EQ(demand_of(plain, 0).microbatches, 2);
  EXPECT_EQ(demand_of(plain, 1).microbatches, 1);
  EXPECT_FALSE(demand_of(plain, 0).splits);
  EXPECT_EQ(demand_of(completed(plain, {.recompute = true}), 0).microbatches, 1);
  EXPECT_EQ(demand_of(named_plan("gpipe", task()).schedule, 1).microbatches, 8);
  EXPECT_TRUE(demand_of(named_plan("zb-h1", task()).schedule, 0).splits);
}

}  // namespace
}  // namespace weft::examples
