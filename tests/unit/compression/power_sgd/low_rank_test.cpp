#include "compression/power_sgd/low_rank.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "compression/power_sgd/low_rank.hpp"

namespace weft::detail {
namespace {

enum class Kept { nothing, floats, steps };

/// A matrix, what is kept of it and what is written, in memory of its own.
struct Owned {
  Owned(std::int64_t rows, std::int64_t columns, Kept kind, unsigned seed)
      : values(static_cast<std::size_t>(rows * columns)), rows_(rows), columns_(columns), kind_(kind) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
    const std::size_t blocks = static_cast<std::size_t>(rows * blocks_of(columns));
    for (auto* scales : {&kept_scales, &next_scales}) scales->assign(blocks, 0);
    for (float& scale : kept_scales) scale = std::ldexp(1.0F, -15 - static_cast<int>(random() % 4));
    for (auto* floats : {&kept_floats, &next_floats}) floats->assign(values.size(), 0);
    for (auto* steps : {&kept_steps, &next_steps}) steps->assign(values.size(), 0);
    for (float& value : kept_floats) value = normal(random);
    for (std::int16_t& value : kept_steps) value = static_cast<std::int16_t>(random());
  }

  Matrix matrix() {
    Matrix result{rows_, columns_, values.data()};
    if (kind_ == Kept::floats) {
      result.kept = {kept_floats.data()};
      result.next = {next_floats.data()};
    } else if (kind_ == Kept::steps) {
      result.kept = {kept_steps.data(), kept_scales.data()};
      result.next = {next_steps.data(), next_scales.data()};
    }
    return result;
  }

  std::vector<float> values;
  std::vector<float> kept_floats, next_floats, kept_scales, next_scales;
  std::vector<std::int16_t> kept_steps, next_steps;

 private:
  std::int64_t rows_, columns_;
  Kept kind_;
};

std::vector<float> drawn(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result(static_cast<std::size_t>(count));
  draw(result, seed);
  return result;
}

class LowRank : public testing::TestWithParam<std::tuple<std::pair<int, int>, int, Kept>> {};

TEST_P(LowRank, VectorsGiveTheBitsOfPlainLoops) {
  const auto [shape, rank, kind] = GetParam();
  const auto [rows, columns] = shape;
  Owned fast(rows, columns, kind, 1);
  Owned slow(rows, columns, kind, 1);
  const std::vector<float> right = drawn(rank * columns, 2);
  std::vector<float> left(static_cast<std::size_t>(rank * rows));
  std::vector<float> plain_left = left;
  project(fast.matrix(), right.data(), rank, left.data());
  plain::project(slow.matrix(), right.data(), rank, plain_left.data());
  EXPECT_EQ(left, plain_left);

  std::vector<float> back(right.size());
  std::vector<float> plain_back = back;
  project_transposed(fast.matrix(), left.data(), rank, back.data());
  plain::project_transposed(slow.matrix(), left.data(), rank, plain_back.data());
  EXPECT_EQ(back, plain_back);

  const Factors mine{left.data(), right.data(), rank};
  const Factors mean{left.data(), back.data(), rank};
  keep_residual(fast.matrix(), mine);
  plain::keep_residual(slow.matrix(), mine);
  EXPECT_EQ(fast.next_steps, slow.next_steps);
  EXPECT_EQ(fast.next_floats, slow.next_floats);
  EXPECT_EQ(fast.values, slow.values) << "only the residual was asked for";

  const std::int64_t begin = rows * columns / 3;
  const std::int64_t end = begin + (rows * columns - begin) / 2;
  Owned part = fast;
  Owned plain_part = slow;
  expand(part.matrix(), mean, begin, end);
  plain::expand(plain_part.matrix(), mean, begin, end);
  EXPECT_EQ(part.values, plain_part.values);

  rebuild(fast.matrix(), mine, mean);
  plain::rebuild(slow.matrix(), mine, mean);
  EXPECT_EQ(fast.values, slow.values);
  EXPECT_EQ(fast.next_steps, slow.next_steps);
  EXPECT_EQ(fast.next_scales, slow.next_scales);
  EXPECT_EQ(fast.next_floats, slow.next_floats);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LowRank,
                         testing::Combine(testing::Values(std::pair(1, 1), std::pair(3, 5), std::pair(4, 16),
                                                          std::pair(9, 255), std::pair(5, 256),
                                                          std::pair(8, 257), std::pair(13, 531),
                                                          std::pair(64, 147)),
                                          testing::Values(1, 2, 5),
                                          testing::Values(Kept::nothing, Kept::floats, Kept::steps)));

TEST(Residual, IsOffByHalfAStepOfItsBlock) {
  std::vector<float> values(1000);
  std::mt19937 random(3);
  for (float& value : values)
    value = std::ldexp(std::normal_distribution<float>()(random), -static_cast<int>(random() % 40));
  values[300] = largest_residual;
  for (std::size_t i = 768; i < 1000; ++i) values[i] = i % 2 == 0 ? 0x1p-149F : 0;
  std::vector<std::int16_t> steps(values.size());
  std::vector<float> scales(static_cast<std::size_t>(blocks_of(1000)));
  const Matrix matrix{1, 1000, values.data(), {}, {steps.data(), scales.data()}};
  const float zero = 0;
  std::vector<float> zeros(1000);
  keep_residual(matrix, {&zero, zeros.data(), 1});
  for (std::size_t block = 0; block < scales.size(); ++block) {
    float largest = 0;
    const std::size_t end = std::min<std::size_t>(1000, (block + 1) * 256);
    for (std::size_t i = block * 256; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
    int exponent = 0;
    EXPECT_EQ(std::frexp(scales[block], &exponent), 0.5F) << "a power of two";
    for (std::size_t i = block * 256; i < end; ++i) {
      const double back = static_cast<double>(steps[i]) * static_cast<double>(scales[block]);
      // The one value that rounds up to 2^15 steps is kept as one step less.
      const double half = std::abs(steps[i]) == INT16_MAX ? 1 : 0.5;
      EXPECT_LE(std::abs(back - static_cast<double>(values[i])), half * static_cast<double>(scales[block]))
          << i;
    }
    EXPECT_LE(scales[block], std::max(0x1p-126F, largest * 0x1p-14F));
  }
}

TEST(Residual, NothingBeyondTheLargestIsKept) {
  std::vector<float> values(40, 1.0F);
  values[0] = 0x1.fffffep127F;
  values[17] = -0x1p65F;
  values[39] = -INFINITY;
  const float zero = 0;
  const std::vector<float> zeros(values.size());
  const Factors nothing{&zero, zeros.data(), 1};
  for (const auto keep : {&keep_residual, &plain::keep_residual}) {
    std::vector<float> kept(values.size());
    keep({1, 40, values.data(), {}, {kept.data()}}, nothing);
    EXPECT_EQ(kept[0], largest_residual);
    EXPECT_EQ(kept[1], 1);
    EXPECT_EQ(kept[17], -largest_residual);
    EXPECT_EQ(kept[39], -largest_residual);
    std::vector<std::int16_t> steps(values.size());
    float scale = 0;
    keep({1, 40, values.data(), {}, {steps.data(), &scale}}, nothing);
    EXPECT_EQ(static_cast<float>(steps[0]) * scale, largest_residual);
    EXPECT_EQ(static_cast<float>(steps[17]) * scale, -largest_residual);
  }
}

TEST(Orthonormal, VectorsAreOrthonormalAndSpanTheSame) {
  constexpr int rank = 6;
  constexpr std::size_t length = 203;
  std::vector<float> factor = drawn(rank * length, 4);
  // Nearly parallel: one pass of Gram-Schmidt in f32 would leave them far from orthogonal.
  for (std::size_t i = 0; i < length; ++i) factor[length + i] = factor[i] + 1e-4F * factor[length + i];
  const std::vector<float> before = factor;
  EXPECT_TRUE(orthonormalize(factor, rank).empty());
  const auto dot = [&](const float* a, const float* b) {
    double sum = 0;
    for (std::size_t i = 0; i < length; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  };
  for (std::size_t a = 0; a < rank; ++a) {
    for (std::size_t b = 0; b <= a; ++b)
      EXPECT_NEAR(dot(&factor[a * length], &factor[b * length]), a == b ? 1 : 0, 2e-7) << a << " " << b;
    double within = 0;
    for (std::size_t b = 0; b < rank; ++b) {
      const double along = dot(&before[a * length], &factor[b * length]);
      within += along * along;
    }
    EXPECT_NEAR(within / dot(&before[a * length], &before[a * length]), 1, 1e-6);
  }
}

TEST(Orthonormal, WhatDependsOnOthersBecomesZero) {
  constexpr std::size_t length = 50;
  std::vector<float> factor = drawn(4 * length, 5);
  for (std::size_t i = 0; i < length; ++i) {
    factor[length + i] = 0;  // dead
    factor[3 * length + i] = 2 * factor[i] - 3 * factor[2 * length + i];
  }
  EXPECT_EQ(orthonormalize(factor, 4), (RecycledVector<int>{1, 3}));
  for (std::size_t i = 0; i < length; ++i) {
    EXPECT_EQ(factor[length + i], 0);
    EXPECT_EQ(factor[3 * length + i], 0);
  }
}

TEST(Orthonormal, NaNStaysNaNAndIsNoDeadLayer) {
  std::vector<float> factor = drawn(30, 6);
  factor[17] = INFINITY;
  EXPECT_TRUE(orthonormalize(factor, 3).empty());
  for (const float value : factor) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace weft::detail
