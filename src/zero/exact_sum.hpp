#pragma once
// A sum of doubles without rounding, in integers: the same whatever the order and whoever adds.
//
// A number is cut into pieces of 32 bits that are added to places of fixed weight, as in a long addition
// (Kulisch 2011). Covers what squares of f32 and of shorter types are, and lines of them: 2^-352 to 2^288.
// Integers can be summed over ranks as they are: `places` after `carry()`.

#include <array>
#include <cstdint>
#include <span>

namespace weft::detail {

class ExactSum {
 public:
  static constexpr int places_count = 22;

  /// Not below 0. What is not finite, or beyond what squares of floats sum up to, only counts as bad.
  void add(double value);
  void add(const ExactSum& other);
  /// Brings every place but the last below 2^32, so that 2^31 ranks' can be summed.
  void carry();
  /// The nearest double, or infinity and NaN where any was added.
  double value() const;
  /// Whether something was not finite.
  bool bad() const { return bad_ != 0; }
  /// All that there is to it: places, and how many were not finite.
  void put(std::span<std::int64_t, places_count + 1> to) const;
  static ExactSum from(std::span<const std::int64_t, places_count + 1> places);

 private:
  static constexpr int lowest = -352;  // exponent of the first place's lowest bit

  std::array<std::int64_t, places_count> places_{};
  std::int64_t bad_ = 0;
  int added_ = 0;  // since the last carry
};

}  // namespace weft::detail
