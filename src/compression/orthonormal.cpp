#include "compression/orthonormal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace weft::detail {
namespace {

// As many as a block of a kernel has threads, and added as it adds them: by halves.
constexpr std::size_t partial_sums = 256;

double dot(std::span<const float> a, std::span<const float> b) {
  std::array<double, partial_sums> partial{};
  for (std::size_t begin = 0; begin < a.size(); begin += partial_sums) {
    const std::size_t some = std::min(partial_sums, a.size() - begin);
    for (std::size_t lane = 0; lane < some; ++lane)
      partial[lane] += static_cast<double>(a[begin + lane]) * static_cast<double>(b[begin + lane]);
  }
  for (std::size_t half = partial_sums / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
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
    // The second time takes away what rounding brought back: then k vectors are orthogonal to f32's last
    // bits.
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
