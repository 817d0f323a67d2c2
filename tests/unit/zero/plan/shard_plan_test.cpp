#include "zero/plan/shard_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.hpp"
#include "weft/zero/stage.hpp"

namespace weft::detail {
namespace {

ParamLayout model() {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 20; ++i) specs.push_back({text("p", i), 7 + 211 * (i % 5)});
  return ParamLayout(DataType::f32, specs);
}

const std::vector<ParamId> thirds{ParamId{0}, ParamId{6}, ParamId{13}};

TEST(ShardPlan, EveryElementIsOneRanksAndPlacesFollowEachOther) {
  for (const int ranks : {1, 2, 3, 8}) {
    const ShardPlan plan(plan_whole_buckets(model(), 4096, 32 * ranks, thirds), ranks, thirds);
    std::vector<int> owners(static_cast<std::size_t>(plan.plan().end()));
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t at = 0;
      for (std::size_t bucket = 0; bucket < plan.plan().buckets().size(); ++bucket) {
        const auto part = plan.part(bucket, rank);
        EXPECT_EQ(part.at, at);
        at += part.count;
        for (std::int64_t i = part.begin; i < part.begin + part.count; ++i)
          ++owners[static_cast<std::size_t>(i)];
      }
      EXPECT_EQ(at, plan.shard_elements());
    }
    EXPECT_EQ(std::ranges::count(owners, 1), plan.plan().end());
  }
}

TEST(ShardPlan, UnitsAreWholeBucketsThatHoldTheirParameters) {
  const ShardPlan plan(plan_whole_buckets(model(), 1000, 64, thirds), 2, thirds);
  ASSERT_EQ(plan.units().size(), 3U);
  std::int64_t end = 0;
  for (const auto& unit : plan.units()) {
    EXPECT_EQ(unit.begin, end);
    for (const std::size_t bucket : unit.buckets) {
      EXPECT_EQ(plan.plan().buckets()[bucket].begin, end);
      end = plan.plan().buckets()[bucket].end;
    }
    EXPECT_EQ(unit.end, end);
  }
  EXPECT_EQ(end, plan.plan().end());
  EXPECT_EQ(plan.unit_of(ParamId{5}), 0);
  EXPECT_EQ(plan.unit_of(ParamId{6}), 1);
  EXPECT_EQ(plan.unit_of(ParamId{19}), 2);
  for (std::size_t bucket = 0; bucket < plan.plan().buckets().size(); ++bucket)
    EXPECT_EQ(plan.number(plan.plan().buckets()[bucket]), bucket);
}

TEST(ShardPlan, RefusesUnitsThatAreNone) {
  test::expect_error(ErrorKind::usage, {"begins with parameter 1"},
                     [] { expect_units(model(), {ParamId{1}}); });
  test::expect_error(ErrorKind::usage, {"unit 2 begins with parameter 3", "ascending"}, [] {
    expect_units(model(), {ParamId{0}, ParamId{3}, ParamId{3}});
  });
  test::expect_error(ErrorKind::usage, {"parameter 20", "of 20"}, [] {
    expect_units(model(), {ParamId{0}, ParamId{20}});
  });
}

TEST(Stage, IsARowOfTheTable) {
  EXPECT_EQ(zero::stage(0), zero::Stage{});
  EXPECT_EQ(zero::stage(1).optimizer, zero::Placement::sharded);
  EXPECT_EQ(zero::stage(2).parameters, zero::Placement::replicated);
  EXPECT_EQ(zero::stage(3).parameters, zero::Placement::sharded);
  for (const int none : {-1, 4})
    test::expect_error(ErrorKind::usage, {text("stage ", none), "0, 1, 2 and 3"}, [&] { zero::stage(none); });
}

}  // namespace
}  // namespace weft::detail
