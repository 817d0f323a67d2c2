#include "weft-scaling/gpt/math/numeric.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "weft-scaling/gpt/data/random.hpp"
#include "weft-scaling/gpt/math/math.hpp"

namespace weft::examples {
namespace {

TEST(Numeric, TheFloatExponentialIsWithinAMillionthOfTheExactOne) {
  double worst = 0;
  for (int i = -870000; i <= 880000; ++i) {
    const float x = static_cast<float>(i) * 1e-4F;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exponential(x)) - exact) / exact);
  }
  EXPECT_LT(worst, 1e-6);
  EXPECT_GT(worst, 0);
}

TEST(Numeric, TheFloatExponentialIsOneAtZeroClampsAtBothEndsAndKeepsNaN) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponential(0.0F), 1.0F);
  EXPECT_EQ(exponential(-infinity), exponential(-87.0F));
  EXPECT_EQ(exponential(infinity), exponential(88.0F));
  EXPECT_TRUE(std::isfinite(exponential(infinity)));
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Numeric, LaneReductionsAgreeWithPlainOnesForEveryLength) {
  for (int count = 1; count <= 70; ++count) {
    std::vector<double> values;
    for (int i = 0; i < count; ++i) values.push_back(random_normal(1, 2, static_cast<std::uint64_t>(i)));
    double sum = 0;
    double top = values[0];
    for (const double value : values) {
      sum += value;
      top = std::max(top, value);
    }
    const auto element = [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
    EXPECT_NEAR(lane_sum<double>(count, element), sum, 1e-12) << count;
    EXPECT_EQ(lane_max<double>(count, element), top) << count;
  }
}

TEST(Numeric, GeluAndItsSlopeAgreeWithTheTanhFormula) {
  std::vector<double> x;
  for (int i = -80; i <= 80; ++i) x.push_back(0.1 * i);
  std::vector<double> slope = x;
  std::vector<double> y(x.size());
  host_math<double>().gelu(slope.data(), y.data(), std::ssize(x));
  const auto formula = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], formula(x[i]), 1e-12);
    EXPECT_NEAR(slope[i], (formula(x[i] + 1e-5) - formula(x[i] - 1e-5)) / 2e-5, 1e-8);
  }
}

TEST(Numeric, NormalDeviatesHaveMeanZeroAndVarianceOne) {
  constexpr int count = 100000;
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double value = random_normal(42, 7, i);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.02);
}

}  // namespace
}  // namespace weft::examples
