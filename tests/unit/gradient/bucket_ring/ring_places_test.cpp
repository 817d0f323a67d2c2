#include "gradient/bucket_ring/ring_places.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

/// One parameter and one bucket for each count; the first count leaves first.
BucketPlan plan_of(const std::vector<std::int64_t>& counts) {
  std::vector<ParamSpec> specs;
  for (std::size_t i = counts.size(); i > 0; --i) specs.push_back({text("p", i), counts[i - 1]});
  return plan_buckets(ParamLayout(DataType::f32, specs), 1);
}

std::vector<std::int64_t> begins(const RingPlaces& ring, std::size_t buckets) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < buckets; ++i) result.push_back(ring.begin(i));
  return result;
}

using Places = std::vector<std::int64_t>;
using Buckets = std::vector<std::size_t>;

TEST(RingPlaces, BucketsOfWhichTwoFillTheMemoryTakeItsEndsInTurn) {
  const RingPlaces ring(plan_of({320, 320, 320, 320}), 640);
  EXPECT_EQ(ring.size(), 640);
  EXPECT_EQ(begins(ring, 4), (Places{0, 320, 0, 320}));
  EXPECT_EQ(ring.after(0), Buckets{});
  EXPECT_EQ(ring.after(1), Buckets{});
  EXPECT_EQ(ring.after(2), Buckets{0});
  EXPECT_EQ(ring.after(3), Buckets{1});
  EXPECT_EQ(ring.after_last_step(0), Buckets{2});
  EXPECT_EQ(ring.after_last_step(1), Buckets{3});
  EXPECT_EQ(ring.after_last_step(2), Buckets{}) << "it has the place from bucket 0 of this step";
}

TEST(RingPlaces, LargeNeighboursOverlapAsLittleAsTheyCan) {
  const RingPlaces ring(plan_of({640, 480, 640}), 960);
  EXPECT_EQ(begins(ring, 3), (Places{0, 480, 0}));
  EXPECT_EQ(ring.after(1), Buckets{0});
  EXPECT_EQ(ring.after(2), (Buckets{0, 1}));
}

TEST(RingPlaces, SmallBucketsFollowEachOtherLikeARing) {
  const std::size_t buckets = 12;
  const RingPlaces ring(plan_of(std::vector<std::int64_t>(buckets, 32)), 4 * 32);
  for (std::size_t i = 0; i < buckets; ++i)
    EXPECT_EQ(ring.after(i), i < 4 ? Buckets{} : Buckets{i - 4}) << "bucket " << i;
}

TEST(RingPlaces, HoldTheLargestBucketAtLeastAndAllOfThemAtMost) {
  EXPECT_EQ(RingPlaces(plan_of({64, 320, 32}), 0).size(), 320);
  EXPECT_EQ(RingPlaces(plan_of({64, 320, 32}), 350).size(), 350);
  const RingPlaces all(plan_of({64, 320, 32}), 1 << 20);
  EXPECT_EQ(all.size(), 416);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(all.after(i), Buckets{});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(all.after_last_step(i), Buckets{i});
}

// Against a record of the last owner of every element.
TEST(RingPlaces, NameEveryBucketWhoseMemoryIsTakenOver) {
  std::mt19937_64 random(17);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::int64_t> counts;
    for (std::uint64_t i = 0, n = 1 + random() % 20; i < n; ++i)
      counts.push_back(32 * static_cast<std::int64_t>(1 + random() % 12));
    const BucketPlan plan = plan_of(counts);
    const auto capacity = static_cast<std::int64_t>(random() % 1500);
    const RingPlaces ring(plan, capacity);
    std::int64_t all = 0;
    for (const std::int64_t count : counts) all += count;
    ASSERT_EQ(ring.size(), std::max(std::min(capacity, all), *std::ranges::max_element(counts)));
    constexpr int none = -1;
    std::vector<int> owner(static_cast<std::size_t>(ring.size()), none);  // by element
    const auto buckets = static_cast<int>(counts.size());
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; i < buckets; ++i) {
        const auto bucket = static_cast<std::size_t>(i);
        ASSERT_GE(ring.begin(bucket), 0);
        ASSERT_LE(ring.begin(bucket) + counts[bucket], ring.size());
        std::set<std::size_t> now;
        std::set<std::size_t> before;
        for (std::int64_t at = 0; at < counts[bucket]; ++at) {
          int& had = owner[static_cast<std::size_t>(ring.begin(bucket) + at)];
          if (had != none)
            (had / buckets == step ? now : before).insert(static_cast<std::size_t>(had % buckets));
          had = step * buckets + i;
        }
        ASSERT_EQ(ring.after(bucket), Buckets(now.begin(), now.end()));
        if (step == 0) continue;
        ASSERT_EQ(ring.after_last_step(bucket), Buckets(before.begin(), before.end()));
      }
    }
  }
}

// Neighbours in plan order that fit side by side never overlap.
TEST(RingPlaces, NeighboursThatFitDoNotOverlap) {
  std::mt19937_64 random(18);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::int64_t> counts;
    for (int i = 0; i < 16; ++i) counts.push_back(32 * static_cast<std::int64_t>(1 + random() % 8));
    const RingPlaces ring(plan_of(counts), 2 * 3 * 256);
    for (std::size_t i = 1; i < counts.size(); ++i)
      ASSERT_EQ(std::ranges::count(ring.after(i), i - 1), 0) << "bucket " << i << ", trial " << trial;
  }
}

TEST(GradientSpace, FindsWhatLiesInOneBucketAndNothingElse) {
  const BucketPlan plan = plan_of({96, 32, 64});  // [96, 192), [64, 96), [0, 64)
  const RingPlaces ring(plan, 128);
  std::vector<float> memory(static_cast<std::size_t>(ring.size()));
  const View all(std::span<float>{memory});
  const GradientSpace space(all, ring.places(plan));
  for (std::size_t i = 0; i < 3; ++i) {
    const Bucket& bucket = plan.buckets()[i];
    EXPECT_EQ(space.slice(bucket.begin, bucket.count()).data(),
              &memory[static_cast<std::size_t>(ring.begin(i))]);
    EXPECT_EQ(space.slice(bucket.begin + 7, 5).data(), &memory[static_cast<std::size_t>(ring.begin(i) + 7)]);
    EXPECT_EQ(space.slice(bucket.begin + 7, 5).count(), 5);
  }
  for (const auto& [begin, count] : {std::pair{60, 8}, {-1, 1}, {191, 2}, {192, 1}, {64, -1}}) {
    test::expect_error(ErrorKind::usage, {text("[", begin, ", ", begin + count, ")"), "in one bucket"},
                       [&] { space.slice(begin, count); });
  }
  std::vector<double> wider(memory.size());
  const GradientSpace over = space.over(View(std::span(wider)));
  EXPECT_EQ(over.dtype(), DataType::f64);
  EXPECT_EQ(over.slice(64, 32).data(), &wider[static_cast<std::size_t>(ring.begin(1))]);
  test::expect_error(ErrorKind::usage, {"128 elements over 127"},
                     [&] { space.over(View(std::span(wider)).slice(0, 127)); });
  const GradientSpace flat = all;
  EXPECT_EQ(flat.slice(60, 8).data(), &memory[60]);
}

}  // namespace
}  // namespace weft::detail
