#pragma once
// A sum of doubles without rounding: the same for every order and every split of the additions.
//
// The accumulator is a row of integers (places), each worth 2^32 times the one before (Kulisch 2011). add()
// cuts the 53-bit mantissa into pieces of 32 bits and adds them to three places; carries are propagated once
// in 2^29 additions. The range 2^-352 to 2^288 covers squares of f32 and shorter types, and sums of them.
// Ranks add up their sums by an all-reduce of the integers: 184 bytes.

#include <array>
#include <cstdint>
#include <span>

namespace weft::detail {

class ExactSum {
 public:
  static constexpr int places_count = 22;

  /// @param value 0 or more. A value that is not finite, or too large, is counted as bad and not added.
  void add(double value);
  void add(const ExactSum& other);
  /// Propagates carries: every place but the last is then below 2^32, so that 2^31 ranks' places can be
  /// summed.
  void carry();
  /// The sum rounded to the nearest double; NaN where a value was bad.
  double value() const;
  /// Whether a value was not finite or too large.
  bool bad() const { return bad_ != 0; }
  /// Writes the accumulator: the places, then the number of bad values.
  void put(std::span<std::int64_t, places_count + 1> to) const;
  /// Reads what put() wrote, or a sum of several of them.
  static ExactSum from(std::span<const std::int64_t, places_count + 1> places);

 private:
  static constexpr int lowest = -352;  // exponent of the first place's lowest bit

  std::array<std::int64_t, places_count> places_{};
  std::int64_t bad_ = 0;
  int added_ = 0;  // since the last carry
};

}  // namespace weft::detail
