#pragma once
// What random trials draw, from a seed that their failures name.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace weft::test {

/// 64 bits for a number (SplitMix64). Draws that hold nothing in memory cost the thread sanitizer nothing.
constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

/// The `i`th number of a seed, normally distributed (Box and Muller).
inline double normal(std::uint64_t seed, std::uint64_t i) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U;
  const std::uint64_t key = mixed((seed + 1) * golden);
  const auto uniform = [&](std::uint64_t n) {  // in (0, 1]
    return (static_cast<double>(mixed(key + n * golden) >> 11U) + 1) * 0x1p-53;
  };
  return std::sqrt(-2 * std::log(uniform(2 * i))) * std::cos(2 * std::numbers::pi * uniform(2 * i + 1));
}

/// The same for the same seed, so that all ranks draw alike.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  int below(int limit) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(limit)); }
  bool once_in(int times) { return below(times) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }
  /// Lengths of every size alike.
  std::int64_t length() {
    const int bits = below(17);
    return bits == 0 ? 0 : below(1 << bits);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace weft::test
