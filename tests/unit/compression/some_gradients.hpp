#pragma once
// Values that codecs must get right: ordinary ones, and those at the ends of what f32 holds.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/under_tsan.hpp"

namespace weft::test {

/// Magnitudes spread around `typical`, by `sigma` of the natural logarithm; random signs.
inline std::vector<float> log_normal(std::size_t count, double typical, unsigned seed, double sigma = 2) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    const double magnitude = typical * std::exp(sigma * normal(engine));
    value = static_cast<float>((engine() & 1U) != 0 ? magnitude : -magnitude);
  }
  return values;
}

struct Kind {
  std::string name;
  std::vector<float> values;
};

/// All of them finite and at most 2^118.
inline std::vector<Kind> ordinary_and_extreme(std::size_t count) {
  std::vector<Kind> kinds;
  for (const double typical : {1e-2, 1e-8, 1e-30, 1e20})
    kinds.push_back({"around " + std::to_string(std::log10(typical)), log_normal(count, typical, 1)});
  kinds.push_back({"zeros", std::vector<float>(count)});
  kinds.push_back({"negative zeros", std::vector<float>(count, -0.0F)});
  kinds.push_back({"all equal", std::vector<float>(count, -0.3F)});
  std::mt19937 twister(2);
  const auto engine = [&] { return static_cast<std::uint32_t>(twister()); };
  const auto fill = [&](const std::string& name, auto make) {
    std::vector<float> values(count);
    for (float& value : values) value = make();
    kinds.push_back({name, values});
  };
  fill("subnormals", [&] { return std::bit_cast<float>(engine() & 0x807fffffU); });
  fill("the least subnormals", [&] { return std::bit_cast<float>(engine() & 0x80000003U); });
  fill("any bits up to 2^118", [&] {
    for (;;) {
      const auto value = std::bit_cast<float>(engine());
      if (std::abs(value) <= 0x1p118F) return value;
    }
  });
  fill("just below a power of two", [&] {  // where rounding leaves the block's binade
    return std::bit_cast<float>(0x3fffffffU - (engine() % 0x40000U));
  });
  fill("halves of int8", [&] { return (static_cast<float>(engine() % 255U) - 127.0F) / 2; });
  std::vector<float> largest = log_normal(count, 1, 3);
  largest[count / 2] = 0x1p118F;
  kinds.push_back({"2^118", largest});
  return kinds;
}

inline std::vector<float> not_finite_enough() {
  using Limits = std::numeric_limits<float>;
  return few_under_tsan<float>(
      {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), Limits::max(), -0x1p119F,
       std::nextafter(0x1p118F, Limits::max()), -Limits::quiet_NaN(), Limits::signaling_NaN()},
      3);
}

}  // namespace weft::test
