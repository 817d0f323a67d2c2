#include "zero/update/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "zero/optimizer/gradient_norm.hpp"

namespace weft::detail {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, OfOneNumberIsThatNumber) {
  for (const double value : {0.0, 1.0, 0.1, 0x1p-298, 0x1.fffffffffffffp260, 3.4e38, 1e-30})
    EXPECT_EQ(sum_of({value}), value);
}

TEST(ExactSum, LosesNothingBetweenLargeAndSmall) {
  EXPECT_EQ(sum_of({0x1p200, 0x1p-200, 0x1p100}), 0x1p200);
  ExactSum sum;
  for (int i = 0; i < 1 << 12; ++i) sum.add(0x1p-12);
  sum.add(0x1p52);
  EXPECT_EQ(sum.value(), 0x1p52 + 1);
}

TEST(ExactSum, RoundsOnceToNearestEven) {
  EXPECT_EQ(sum_of({0x1p53, 1}), 0x1p53);
  EXPECT_EQ(sum_of({0x1p53, 1, 0x1p-250}), 0x1p53 + 2);
  EXPECT_EQ(sum_of({0x1p53 + 2, 1}), 0x1p53 + 4);
}

TEST(ExactSum, IsTheSameInAnyOrderAndInAnyParts) {
  std::mt19937_64 random(1);
  std::vector<double> values(5000);
  for (double& value : values)
    value =
        std::ldexp(std::uniform_real_distribution<>(0, 1)(random), static_cast<int>(random() % 500) - 250);
  const double whole = sum_of(values);
  long double reference = 0;
  std::ranges::sort(values);
  for (const double value : values) reference += value;
  EXPECT_NEAR(whole / static_cast<double>(reference), 1, 1e-15);
  for (int trial = 0; trial < 10; ++trial) {
    std::ranges::shuffle(values, random);
    ExactSum parts[3];
    for (std::size_t i = 0; i < values.size(); ++i) parts[random() % 3].add(values[i]);
    std::vector<std::int64_t> places(ExactSum::places_count + 1);
    for (const ExactSum& part : parts) {
      std::vector<std::int64_t> mine(places.size());
      part.put(std::span(mine).first<ExactSum::places_count + 1>());
      for (std::size_t i = 0; i < places.size(); ++i) places[i] += mine[i];
    }
    EXPECT_EQ(ExactSum::from(std::span(places).first<ExactSum::places_count + 1>()).value(), whole);
    parts[0].add(parts[1]);
    parts[0].add(parts[2]);
    EXPECT_EQ(parts[0].value(), whole);
  }
}

TEST(ExactSum, CountsWhatIsNotFiniteAsBad) {
  for (const double value : {std::numeric_limits<double>::infinity(), std::nan(""), 0x1p900}) {
    ExactSum sum;
    sum.add(1);
    EXPECT_FALSE(sum.bad());
    sum.add(value);
    EXPECT_TRUE(sum.bad());
    EXPECT_TRUE(std::isnan(sum.value()));
  }
}

TEST(AddSquares, AreTheSameHoweverLinesAreCut) {
  std::mt19937 random(2);
  std::vector<float> values(32 * 40 + 5);
  for (float& value : values) value = std::normal_distribution<float>(0, 1e-3F)(random);
  const ConstView all{std::span<const float>(values)};
  ExactSum whole;
  add_squares(all, whole);
  double reference = 0;
  for (const float value : values) reference += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(whole.value() / reference, 1, 1e-14);
  ExactSum pieces;
  add_squares(all.slice(32 * 7, values.size() - 32 * 7), pieces);
  add_squares(all.slice(0, 32 * 7), pieces);
  EXPECT_EQ(pieces.value(), whole.value());
}

TEST(AddSquares, SeesInfinityNanAndTheLargestFloat) {
  std::vector<float> values(64, std::numeric_limits<float>::max());
  ExactSum finite;
  add_squares(ConstView(std::span<const float>(values)), finite);
  EXPECT_NEAR(finite.value() / (64 * std::pow(static_cast<double>(values[0]), 2)), 1, 1e-14);
  values[40] = std::numeric_limits<float>::infinity();
  add_squares(ConstView(std::span<const float>(values)), finite);
  EXPECT_TRUE(finite.bad());
}

}  // namespace
}  // namespace weft::detail
