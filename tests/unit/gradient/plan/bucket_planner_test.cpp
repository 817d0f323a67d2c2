#include "weft/gradient/bucket_planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gradient/reducer/observed_steps.hpp"
#include "support/expect_error.hpp"

namespace weft {
namespace {

ParamLayout layout_of(const std::vector<std::int64_t>& counts) {
  std::vector<ParamSpec> specs;
  for (std::size_t i = 0; i < counts.size(); ++i) specs.push_back({text("p", i), counts[i]});
  return {DataType::f32, specs};
}

struct Instance {
  ParamLayout layout;
  std::vector<double> ready;
  LinkModel link;

  /// The plan in which a bucket ends with each parameter whose bit is set, from the last parameter on.
  BucketPlan cut(std::uint64_t bits) const {
    std::vector<Bucket> buckets;
    Bucket bucket{layout.size(), layout.size(), {}};
    for (int i = layout.parameters() - 1; i >= 0; --i) {
      bucket.begin = layout.offset(ParamId{i});
      bucket.params.push_back(ParamId{i});
      if (i > 0 && (bits >> i & 1) == 0) continue;
      buckets.push_back(std::move(bucket));
      bucket = {layout.offset(ParamId{i}), layout.offset(ParamId{i}), {}};
    }
    return {layout, std::move(buckets)};
  }
  Forecast forecast_of(const BucketPlan& plan) const { return forecast(plan, ready, link); }
};

/// Sizes, times and links over orders of magnitude; `in_order`: gradients come from the last to the first.
Instance random_instance(std::mt19937_64& random, int parameters, bool in_order) {
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(random));
  };
  std::vector<std::int64_t> counts;
  std::vector<double> ready;
  for (int i = 0; i < parameters; ++i) {
    counts.push_back(static_cast<std::int64_t>(between(1, 4e6)));
    ready.push_back(between(1e-5, 1e-2));
  }
  if (in_order) {
    double time = 0;
    for (std::size_t i = ready.size(); i-- > 0;) ready[i] = time += ready[i];
  }
  return {layout_of(counts), ready, {between(1e-7, 1e-2), between(1e8, 1e12)}};
}

// The exact optimum of small instances, by trying every plan.
TEST(BucketPlanner, FindsThePlanThatTryingAllOfThemFinds) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const int parameters = 1 + static_cast<int>(random() % 9);
    const Instance one = random_instance(random, parameters, trial % 2 == 0);
    double best = HUGE_VAL;
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << parameters; bits += 2)
      best = std::min(best, one.forecast_of(one.cut(bits)).buckets.back().end);
    const BucketPlan plan = plan_buckets(one.layout, one.ready, one.link);
    const double ratio = one.forecast_of(plan).buckets.back().end / best;
    ASSERT_LE(ratio, 1 + 1e-9) << "trial " << trial;
    // Where backward jumps, the plan may be better: its buckets may leave in an order that was not tried.
    if (trial % 2 == 0) {
      ASSERT_NEAR(ratio, 1, 1e-9) << "trial " << trial;
    }
  }
}

/// The best of all plans whose buckets leave in any order.
double best_in_any_order(const Instance& one) {
  double best = HUGE_VAL;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << one.layout.parameters(); bits += 2) {
    std::vector<Bucket> buckets = one.cut(bits).buckets();
    const auto by_begin = [](const Bucket& a, const Bucket& b) { return a.begin < b.begin; };
    std::ranges::sort(buckets, by_begin);
    do {
      best = std::min(best, one.forecast_of({one.layout, buckets}).buckets.back().end);
    } while (std::ranges::next_permutation(buckets, by_begin).found);
  }
  return best;
}

// A decoder that was registered before its encoder: its gradients come first, and lie at the layout's end.
TEST(BucketPlanner, FollowsABackwardThatJumps) {
  std::mt19937_64 random(5);
  double worst = 1;
  for (int trial = 0; trial < 200; ++trial) {
    Instance one = random_instance(random, 3 + static_cast<int>(random() % 4), true);
    const auto n = static_cast<std::size_t>(one.layout.parameters());
    std::ranges::rotate(one.ready, one.ready.begin() + 1 + static_cast<std::ptrdiff_t>(random() % (n - 1)));
    one.link.latency_seconds = 1e-7;
    const BucketPlan plan = plan_buckets(one.layout, one.ready, one.link);
    worst = std::max(worst, one.forecast_of(plan).buckets.back().end / best_in_any_order(one));
    std::vector<bool> is_there(n);
    for (const Bucket& bucket : plan.buckets()) {
      for (const ParamId id : bucket.params) is_there[index(id)] = true;
    }
    ASSERT_EQ(std::ranges::count(is_there, true), static_cast<std::ptrdiff_t>(n));
  }
  EXPECT_LE(worst, 1.01);
}

/// The obvious quadratic dynamic program, over all beginnings of the last bucket. The result is by the number
/// of parameters that have left.
std::vector<double> earliest_ends(const Instance& one, double most_bytes) {
  const int n = one.layout.parameters();
  std::vector<double> end(static_cast<std::size_t>(n) + 1, HUGE_VAL);
  end[0] = 0;
  for (int j = 1; j <= n; ++j) {
    for (int i = 0; i < j; ++i) {
      double ready = 0;
      for (int k = i; k < j; ++k) ready = std::max(ready, one.ready[static_cast<std::size_t>(n - 1 - k)]);
      const std::int64_t from = one.layout.offset(ParamId{n - j});
      const std::int64_t to = i == 0 ? one.layout.size() : one.layout.offset(ParamId{n - i});
      if (i < j - 1 && 4.0 * static_cast<double>(to - from) > most_bytes) continue;
      const double took = one.link.seconds(4.0 * static_cast<double>(to - from));
      end[static_cast<std::size_t>(j)] = std::min(end[static_cast<std::size_t>(j)],
                                                  std::max(ready, end[static_cast<std::size_t>(i)]) + took);
    }
  }
  return end;
}

TEST(BucketPlanner, IsAsGoodAsTheObviousDynamicProgramOnTenThousandInstances) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 10'000; ++trial) {
    const Instance one = random_instance(random, 1 + static_cast<int>(random() % 40), trial % 4 != 0);
    const std::size_t most_bytes = trial % 3 == 0 ? 1 + random() % 20'000'000 : std::size_t{1} << 60;
    const BucketPlan plan = plan_buckets(one.layout, one.ready, one.link, most_bytes);
    const Forecast seen = one.forecast_of(plan);
    const std::vector<double> earliest = earliest_ends(one, static_cast<double>(most_bytes));
    std::size_t parameters = 0;
    for (std::size_t i = 0; i < seen.buckets.size(); ++i) {  // every bucket, not only the last
      const Bucket& bucket = plan.buckets()[i];
      parameters += bucket.params.size();
      ASSERT_TRUE(bucket.params.size() == 1 || static_cast<std::size_t>(bucket.count()) * 4 <= most_bytes);
      if (trial % 4 == 0) continue;
      ASSERT_NEAR(seen.buckets[i].end / earliest[parameters], 1, 1e-9)
          << "bucket " << i << ", trial " << trial;
    }
    ASSERT_LE(seen.buckets.back().end / earliest.back(), 1 + 1e-9) << "trial " << trial;
  }
}

TEST(BucketPlanner, PlansCoverTheLayoutFromItsEndToItsBeginning) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const Instance one = random_instance(random, 1 + static_cast<int>(random() % 300), true);
    const BucketPlan plan = plan_buckets(one.layout, one.ready, one.link);
    std::int64_t end = one.layout.size();
    int next = one.layout.parameters();
    for (const Bucket& bucket : plan.buckets()) {
      ASSERT_EQ(bucket.end, end);
      ASSERT_FALSE(bucket.params.empty());
      for (const ParamId id : bucket.params) ASSERT_EQ(static_cast<int>(index(id)), --next);
      ASSERT_EQ(bucket.begin, one.layout.offset(bucket.params.back()));
      end = bucket.begin;
    }
    ASSERT_EQ(end, 0);
    ASSERT_EQ(next, 0);
  }
}

TEST(BucketPlanner, ObservesSmallAndLargeBuckets) {
  const std::int64_t mib = (1 << 20) / 4;
  const auto layout = layout_of({mib, 4, 4, mib / 2, mib / 2, 4, 2 * mib, 4, 4});
  const BucketPlan plan = detail::probing_plan(layout);
  std::vector<std::size_t> parameters;
  for (const Bucket& bucket : plan.buckets()) parameters.push_back(bucket.params.size());
  EXPECT_EQ(parameters, (std::vector<std::size_t>{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(plan.buckets().front().end, layout.size());
  EXPECT_EQ(plan.buckets().back().begin, 0);
}

TEST(BucketPlanner, FollowsTheLink) {
  const auto layout = layout_of(std::vector<std::int64_t>(8, 1 << 20));
  std::vector<double> ready;
  for (int i = 0; i < 8; ++i) ready.push_back(0.008 - 0.001 * i);
  // Without latency only the last gradient is exposed. With a latency above the time of backward all go at
  // once.
  const LinkModel fast{0, 1e10};
  EXPECT_NEAR(forecast(plan_buckets(layout, ready, fast), ready, fast).exposed_seconds, fast.seconds(4 << 20),
              1e-12);
  EXPECT_EQ(plan_buckets(layout, ready, {0.1, 1e12}).buckets().size(), 1U);
  const Forecast hidden = forecast(plan_buckets(layout, ready, {1e-5, 1e12}), ready, {1e-5, 1e12});
  EXPECT_LT(hidden.exposed_seconds, 2e-5);
  EXPECT_DOUBLE_EQ(hidden.backward_seconds, 0.008);
}

TEST(BucketPlanner, RefusesWhatMakesNoSense) {
  const auto layout = layout_of({1, 2});
  const LinkModel link{1e-5, 1e9};
  const auto refused = [&](std::vector<double> ready, LinkModel with, const std::string& problem) {
    test::expect_error(ErrorKind::usage, {problem}, [&] { plan_buckets(layout, ready, with); });
  };
  refused({1}, link, "1 ready times for 2 parameters");
  refused({1, -1}, link, "gradient of p1 is ready after -1 s");
  refused({NAN, 1}, link, "gradient of p0 is ready after nan s");
  refused({1, 1}, {1e-5, 0}, "a link of 1e-05 s and 0 bytes/s");
  refused({1, 1}, {-1, 1e9}, "a link of -1 s");
  test::expect_error(ErrorKind::usage, {"at most 0 bytes"}, [&] {
    plan_buckets(layout, std::vector<double>{1, 1}, link, 0);
  });
}

TEST(LinkModel, IsTheLineThroughItsSamples) {
  const LinkModel truth{20e-6, 5e9};
  std::vector<LinkModel::Sample> samples;
  for (const double bytes : {4e3, 64e3, 1e6, 4e6}) samples.push_back({bytes, truth.seconds(bytes)});
  const LinkModel fitted = LinkModel::fit(samples);
  EXPECT_NEAR(fitted.latency_seconds / truth.latency_seconds, 1, 1e-9);
  EXPECT_NEAR(fitted.bytes_per_second / truth.bytes_per_second, 1, 1e-9);
}

TEST(LinkModel, IsNeverNegative) {
  const std::vector<LinkModel::Sample> steep{{1e3, 1e-6}, {1e6, 2e-3}};
  EXPECT_EQ(LinkModel::fit(steep).latency_seconds, 0);
  EXPECT_GT(LinkModel::fit(steep).bytes_per_second, 0);
  const std::vector<LinkModel::Sample> falling{{1e3, 2e-3}, {1e6, 1e-3}};
  EXPECT_GT(LinkModel::fit(falling).latency_seconds, 0);
  EXPECT_GT(LinkModel::fit(falling).bytes_per_second, 1e12);
  test::expect_error(ErrorKind::usage, {"2 samples of one size"}, [] {
    LinkModel::fit(std::vector<LinkModel::Sample>{{8, 1}, {8, 2}});
  });
  test::expect_error(ErrorKind::usage, {"a link sample of 8 bytes in 0 s"}, [] {
    LinkModel::fit(std::vector<LinkModel::Sample>{{8, 0}, {9, 2}});
  });
}

}  // namespace
}  // namespace weft
