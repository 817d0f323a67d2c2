#include "compression/low_rank.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace weft::detail {

float residual_scale(float largest) {
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(largest) >> 23U;  // of 2^(exponent - 127)
  constexpr std::uint32_t bits = 14;  // largest / scale is below 2^15
  // Below, the inverse would not be finite; NaN and infinity have any scale, for nothing reads them.
  const std::uint32_t scale = std::clamp<std::uint32_t>(exponent, bits + 1, 254) - bits;
  return std::bit_cast<float>(scale << 23U);
}

namespace plain {
namespace {

float kept(const Matrix& matrix, std::int64_t i, std::int64_t j) {
  if (matrix.kept.values == nullptr) return 0;
  const std::int64_t at = i * matrix.columns + j;
  if (matrix.kept.scales == nullptr) return static_cast<const float*>(matrix.kept.values)[at];
  return static_cast<float>(static_cast<const std::int16_t*>(matrix.kept.values)[at]) *
         matrix.kept.scales[i * blocks_of(matrix.columns) + j / residual_block];
}

float with_residual(const Matrix& matrix, std::int64_t i, std::int64_t j) {
  return matrix.values[i * matrix.columns + j] + kept(matrix, i, j);
}

float product(const Factors& factors, const Matrix& matrix, std::int64_t i, std::int64_t j) {
  float sum = 0;
  for (int k = 0; k < factors.rank; ++k)
    sum += factors.left[k * matrix.rows + i] * factors.right[k * matrix.columns + j];
  return sum;
}

std::int16_t in_steps(float value, float scale) {
  return static_cast<std::int16_t>(
      std::clamp<long>(std::lrint(value * (1.0F / scale)), -INT16_MAX, INT16_MAX));
}

void keep(const Matrix& matrix, std::int64_t i, std::int64_t begin, std::int64_t end, const float* values) {
  const std::int64_t at = i * matrix.columns + begin;
  if (matrix.next.scales == nullptr) {
    std::copy(values, values + (end - begin), static_cast<float*>(matrix.next.values) + at);
    return;
  }
  float largest = 0;
  for (std::int64_t j = 0; j < end - begin; ++j) largest = std::max(largest, std::abs(values[j]));
  const float scale = residual_scale(largest);
  matrix.next.scales[i * blocks_of(matrix.columns) + begin / residual_block] = scale;
  auto* steps = static_cast<std::int16_t*>(matrix.next.values) + at;
  for (std::int64_t j = 0; j < end - begin; ++j) steps[j] = in_steps(values[j], scale);
}

}  // namespace

void project(const Matrix& matrix, const float* right, int rank, float* left) {
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (int k = 0; k < rank; ++k) {
      std::array<float, partial_sums> partial{};
      for (std::int64_t j = 0; j < matrix.columns; ++j)
        partial[static_cast<std::size_t>(j % partial_sums)] +=
            with_residual(matrix, i, j) * right[k * matrix.columns + j];
      for (std::size_t half = partial_sums / 2; half > 0; half /= 2) {
        for (std::size_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
      }
      left[k * matrix.rows + i] = partial[0];
    }
  }
}

void project_transposed(const Matrix& matrix, const float* left, int rank, float* right) {
  std::fill(right, right + rank * matrix.columns, 0.0F);
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (int k = 0; k < rank; ++k) {
      for (std::int64_t j = 0; j < matrix.columns; ++j)
        right[k * matrix.columns + j] += with_residual(matrix, i, j) * left[k * matrix.rows + i];
    }
  }
}

void keep_residual(const Matrix& matrix, const Factors& mine) {
  if (matrix.next.values == nullptr) return;
  std::array<float, residual_block> lost;
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t begin = 0; begin < matrix.columns; begin += residual_block) {
      const std::int64_t end = std::min(begin + residual_block, matrix.columns);
      for (std::int64_t j = begin; j < end; ++j)
        lost[static_cast<std::size_t>(j - begin)] = std::clamp(
            with_residual(matrix, i, j) - product(mine, matrix, i, j), -largest_residual, largest_residual);
      keep(matrix, i, begin, end, lost.data());
    }
  }
}

void expand(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end) {
  for (std::int64_t at = begin; at < end; ++at)
    matrix.values[at] = product(mean, matrix, at / matrix.columns, at % matrix.columns);
}

void rebuild(const Matrix& matrix, const Factors& mine, const Factors& mean) {
  plain::keep_residual(matrix, mine);
  plain::expand(matrix, mean, 0, matrix.rows * matrix.columns);
}

}  // namespace plain

#if !WEFT_HAS_HIGHWAY
void project(const Matrix& matrix, const float* right, int rank, float* left) {
  plain::project(matrix, right, rank, left);
}
void project_transposed(const Matrix& matrix, const float* left, int rank, float* right) {
  plain::project_transposed(matrix, left, rank, right);
}
void rebuild(const Matrix& matrix, const Factors& mine, const Factors& mean) {
  plain::rebuild(matrix, mine, mean);
}
void keep_residual(const Matrix& matrix, const Factors& mine) {
  plain::keep_residual(matrix, mine);
}
void expand(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end) {
  plain::expand(matrix, mean, begin, end);
}
#endif

}  // namespace weft::detail
