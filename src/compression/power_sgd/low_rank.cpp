// Plain loops over one matrix, and the orthonormalization of factors; low_rank_simd.cpp has the vector loops.

#include "compression/power_sgd/low_rank.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace weft::detail {

float residual_scale(float largest) {
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(largest) >> 23U;  // below 2^(exponent - 126)
  constexpr std::uint32_t bits = 14;  // largest / scale is below 2^15
  // A smaller scale would have no finite inverse. The scale of NaN and infinity does not matter: it
  // is never read.
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
        for (std::size_t p = 0; p < half; ++p) partial[p] += partial[p + half];
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

namespace {

// As many partial sums as a thread block of the kernel has threads, added by halves as the kernel does.
constexpr std::size_t dot_sums = 256;

double dot(std::span<const float> a, std::span<const float> b) {
  std::array<double, dot_sums> partial{};
  for (std::size_t begin = 0; begin < a.size(); begin += dot_sums) {
    const std::size_t some = std::min(dot_sums, a.size() - begin);
    for (std::size_t p = 0; p < some; ++p)
      partial[p] += static_cast<double>(a[begin + p]) * static_cast<double>(b[begin + p]);
  }
  for (std::size_t half = dot_sums / 2; half > 0; half /= 2) {
    for (std::size_t p = 0; p < half; ++p) partial[p] += partial[p + half];
  }
  return partial[0];
}

void subtract(std::span<float> from, double factor, std::span<const float> vector) {
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<float>(static_cast<double>(from[i]) - factor * static_cast<double>(vector[i]));
}

void scale(std::span<float> vector, double factor) {
  for (float& element : vector) element = static_cast<float>(static_cast<double>(element) * factor);
}

/// SplitMix64: every counter is a good seed.
std::uint64_t mixed(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31U);
}

}  // namespace

RecycledVector<int> orthonormalize(std::span<float> factor, int rank) {
  constexpr double nothing = 0x1p-20;
  const std::size_t length = factor.size() / static_cast<std::size_t>(rank);
  const auto vector = [&](int k) { return factor.subspan(static_cast<std::size_t>(k) * length, length); };
  RecycledVector<int> zero;
  for (int k = 0; k < rank; ++k) {
    const double before = std::sqrt(dot(vector(k), vector(k)));
    if (!std::isfinite(before)) {
      std::ranges::fill(factor, std::numeric_limits<float>::quiet_NaN());
      return {};
    }
    // The second round removes what rounding left: then the vectors are orthogonal to the last bits of f32.
    for (int round = 0; round < 2; ++round) {
      for (int other = 0; other < k; ++other)
        subtract(vector(k), dot(vector(other), vector(k)), vector(other));
    }
    const double left = std::sqrt(dot(vector(k), vector(k)));
    if (left > nothing * before) {
      scale(vector(k), 1 / left);
    } else {
      std::ranges::fill(vector(k), 0.0F);
      zero.push_back(k);
    }
  }
  return zero;
}

std::uint64_t vector_seed(std::uint64_t seed, int k) {
  return mixed(seed + static_cast<std::uint64_t>(k));
}

void draw(std::span<float> vector, std::uint64_t seed) {
  std::uint64_t counter = mixed(seed);
  for (float& element : vector) {
    // Odd multiples of 2^-24 between -1 and 1: symmetric, and never zero.
    const auto word = static_cast<std::int64_t>(mixed(counter++) >> 40U);
    element = static_cast<float>(2 * word + 1 - (std::int64_t{1} << 24U)) * 0x1p-24F;
  }
}

}  // namespace weft::detail
