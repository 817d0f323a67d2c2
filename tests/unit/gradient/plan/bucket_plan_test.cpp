#include "weft/gradient/bucket_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "support/expect_error.hpp"

namespace weft {
namespace {

TEST(BucketPlan, TheLastParametersLeaveFirst) {
  const ParamLayout layout(DataType::f32, {{"a", 32}, {"b", 32}, {"c", 32}});
  const BucketPlan plan = plan_buckets(layout, 256);
  ASSERT_EQ(plan.buckets().size(), 2U);
  EXPECT_EQ(plan.buckets()[0], (Bucket{32, 96, {ParamId{2}, ParamId{1}}}));
  EXPECT_EQ(plan.buckets()[1], (Bucket{0, 32, {ParamId{0}}}));
  std::ostringstream out;
  out << plan;
  EXPECT_EQ(
      out.str(),
      "bucket 0: [32, 96) 256 bytes, 2 parameters: c ... b\nbucket 1: [0, 32) 128 bytes, 1 parameters: a\n");
}

TEST(BucketPlan, LargeParametersAreAloneWhereThatIsAskedFor) {
  const ParamLayout layout(DataType::f32,
                           {{"a", 32}, {"large", 64}, {"b", 32}, {"c", 32}, {"huge", 96}, {"e", 7}});
  const BucketPlan plan = plan_buckets(layout, 512, 256);
  ASSERT_EQ(plan.buckets().size(), 5U);
  EXPECT_EQ(plan.buckets()[0].params, (std::vector{ParamId{5}}));
  EXPECT_EQ(plan.buckets()[1].params, (std::vector{ParamId{4}}));
  EXPECT_EQ(plan.buckets()[2].params, (std::vector{ParamId{3}, ParamId{2}})) << "small ones share";
  EXPECT_EQ(plan.buckets()[3], (Bucket{32, 96, {ParamId{1}}}));
  EXPECT_EQ(plan.buckets()[4], (Bucket{0, 32, {ParamId{0}}}));
}

TEST(BucketPlan, AnyPlanCoversTheLayoutOnceAndKeepsToItsBytes) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<ParamSpec> specs;
    for (std::uint64_t i = 0, n = 1 + random() % 40; i < n; ++i) {
      specs.push_back({text("p", i), static_cast<std::int64_t>(1 + random() % 5000)});
    }
    const ParamLayout layout(DataType::f32, specs);
    const std::size_t bytes = 1 + random() % 40000;
    const BucketPlan plan = plan_buckets(layout, bytes);
    std::int64_t end = layout.size();
    int next = layout.parameters() - 1;
    for (const Bucket& bucket : plan.buckets()) {
      EXPECT_EQ(bucket.end, end);
      end = bucket.begin;
      for (const ParamId id : bucket.params) EXPECT_EQ(id, ParamId{next--});
      EXPECT_EQ(bucket.begin, layout.offset(bucket.params.back()));
      const auto bytes_down_to = [&](ParamId id) {
        return static_cast<std::size_t>(bucket.end - layout.offset(id)) * 4;
      };
      EXPECT_TRUE(bytes_down_to(bucket.params.back()) >= bytes || bucket.begin == 0) << "closed too early";
      if (bucket.params.size() > 1) {
        EXPECT_LT(bytes_down_to(*(bucket.params.end() - 2)), bytes) << "closed too late";
      }
    }
    EXPECT_EQ(end, 0);
    EXPECT_EQ(next, -1);
  }
}

// Every element is in one bucket, and every parameter in all buckets that have one of its elements. Ends only
// move up, so that a bucket only gains gradients that are ready earlier.
TEST(BucketPlan, AlignedPlansMayEndWhereTheLayoutDoes) {
  const ParamLayout layout(DataType::f32, {{"a", 100}, {"b", 500}, {"c", 41}});  // 128 + 512 + 64 elements
  const BucketPlan plan = aligned(plan_buckets(layout, 1), 256, Tail::partial);
  ASSERT_EQ(plan.buckets().size(), 2U) << "c has no multiple of its own";
  EXPECT_EQ(plan.buckets()[0].end, layout.size());
  EXPECT_EQ(plan.buckets()[0].begin, 256);
  EXPECT_EQ(plan.buckets()[0].params, (std::vector{ParamId{2}, ParamId{1}}));
  EXPECT_EQ(plan.buckets()[1].begin, 0);
  EXPECT_EQ(plan.end(), layout.size());
}

TEST(BucketPlan, AlignedPlansCoverTheSameElementsInWholeUnits) {
  std::mt19937_64 random(12);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<ParamSpec> specs;
    for (std::uint64_t i = 0, n = 1 + random() % 40; i < n; ++i)
      specs.push_back({text("p", i), static_cast<std::int64_t>(1 + random() % 200)});
    const ParamLayout layout(DataType::f32, specs);
    const std::int64_t unit = 1 + static_cast<std::int64_t>(random() % 300);
    const BucketPlan plan = plan_buckets(layout, 1 + random() % 2000);
    const BucketPlan moved = aligned(plan, unit);
    std::int64_t end = (layout.size() + unit - 1) / unit * unit;
    for (const Bucket& bucket : moved.buckets()) {
      ASSERT_EQ(bucket.end, end);
      ASSERT_LT(bucket.begin, bucket.end);
      ASSERT_EQ(bucket.count() % unit, 0);
      end = bucket.begin;
      std::vector<ParamId> overlapping;
      for (int i = layout.parameters() - 1; i >= 0; --i) {
        const ParamId id{i};
        if (layout.offset(id) < bucket.end && layout.offset(id) + layout.count(id) > bucket.begin)
          overlapping.push_back(id);
      }
      ASSERT_EQ(bucket.params, overlapping);
    }
    ASSERT_EQ(end, 0);
    ASSERT_LE(moved.buckets().size(), plan.buckets().size());
    ASSERT_EQ(aligned(plan, 1), plan);
  }
  test::expect_error(ErrorKind::usage, {"aligned to 0 elements"}, [&] {
    aligned(plan_buckets(ParamLayout(DataType::f32, {{"a", 1}}), 1), 0);
  });
}

// Every parameter is whole in one bucket. No bucket has parameters of two units. Each bucket is filled as
// far as that allows and no further. All bounds are multiples of the unit.
TEST(BucketPlan, WholeBucketsDivideEvenlyAndKeepToTheirGroups) {
  std::mt19937_64 random(13);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<ParamSpec> specs;
    std::vector<ParamId> closes;
    for (std::uint64_t i = 0, n = 1 + random() % 40; i < n; ++i) {
      specs.push_back({text("p", i), static_cast<std::int64_t>(1 + random() % 500)});
      if (random() % 6 == 0) closes.push_back(ParamId{static_cast<std::int32_t>(i)});
    }
    const ParamLayout layout(DataType::f32, specs);
    const std::int64_t unit = 32 * static_cast<std::int64_t>(1 + random() % 9);
    const std::size_t bytes = 1 + random() % 6000;
    const BucketPlan plan = plan_whole_buckets(layout, bytes, unit, closes);
    ASSERT_TRUE(plan.layout().has_parameters_of(layout));
    const auto bytes_of = [&](ParamId id) {
      return static_cast<std::size_t>((layout.count(id) + 31) / 32) * 128;
    };
    const auto is_close = [&](ParamId id) { return std::ranges::count(closes, id) > 0; };
    std::int64_t end = plan.layout().size();
    int next = layout.parameters() - 1;
    for (const Bucket& bucket : plan.buckets()) {
      ASSERT_EQ(bucket.end, end);
      ASSERT_EQ(bucket.begin % unit, 0);
      ASSERT_EQ(bucket.end % unit, 0);
      end = bucket.begin;
      std::size_t held = 0;
      for (const ParamId id : bucket.params) {
        ASSERT_EQ(id, ParamId{next--});
        ASSERT_GE(plan.layout().offset(id), bucket.begin);
        ASSERT_LE(plan.layout().offset(id) + layout.count(id), bucket.end);
        held += bytes_of(id);
        const bool ends = held >= bytes || is_close(id) || id == ParamId{0};
        ASSERT_EQ(ends, id == bucket.params.back());
      }
      const std::int64_t least = static_cast<std::int64_t>(held / 4);
      ASSERT_EQ(bucket.count(), (least + unit - 1) / unit * unit) << "no more padding than that takes";
    }
    ASSERT_EQ(end, 0);
    ASSERT_EQ(next, -1);
  }
  const ParamLayout one(DataType::f32, {{"a", 1}});
  test::expect_error(ErrorKind::usage, {"bucket_bytes is 0"}, [&] { plan_whole_buckets(one, 0, 32); });
  test::expect_error(ErrorKind::usage, {"multiples of 33"}, [&] { plan_whole_buckets(one, 1, 33); });
  test::expect_error(ErrorKind::usage, {"parameter 1 of 1"},
                     [&] { plan_whole_buckets(one, 1, 32, {ParamId{1}}); });
}

TEST(BucketPlan, HashesTellPlansApartAndZeroBytesAreRefused) {
  const ParamLayout layout(DataType::f32, {{"a", 32}, {"b", 32}, {"c", 32}});
  EXPECT_EQ(plan_buckets(layout, 256).hash(), plan_buckets(layout, 256).hash());
  EXPECT_NE(plan_buckets(layout, 256).hash(), plan_buckets(layout, 128).hash());
  test::expect_error(ErrorKind::usage, {"bucket_bytes is 0"}, [&] { plan_buckets(layout, 0); });
}

}  // namespace
}  // namespace weft
