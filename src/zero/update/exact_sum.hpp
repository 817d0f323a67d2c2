#pragma once
// A sum of doubles without rounding: the same for every order and every split of the additions.
//
// The accumulator is a row of integers (places), each worth 2^32 times the one before (Kulisch 2011). add()
// cuts the 53-bit mantissa into pieces of 32 bits and adds them to three places; carries are propagated once
// in 2^29 additions. The range 2^-352 to 2^288 covers squares of f32 and shorter types, and sums of them.
// Ranks add up their sums by an all-reduce of the integers: 184 bytes.

#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace weft::detail {

class ExactSum {
 public:
  static constexpr int places_count = 22;

  /// A value in pieces of 32 bits for the places `first`, `first` + 1 and `first` + 2. The second piece is below 2^33.
  struct Cut {
    int first = nothing;
    std::int64_t pieces[3] = {};
    static constexpr int nothing = -1;  ///< the value is 0, or smaller than any square of a float
    static constexpr int bad = -2;      ///< not finite, or too large
  };
  /// Also what the device's kernel does with a line (zero/update/squares.cu).
  static constexpr Cut cut(double value);

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

constexpr ExactSum::Cut ExactSum::cut(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto exponent = static_cast<int>(bits >> 52U) & 0x7ff;
  if (exponent == 0x7ff) return {.first = Cut::bad};
  const int above = exponent - 1075 - lowest;  // of the mantissa's lowest bit
  if (exponent == 0 || above < 0) return {};
  const int place = above / 32;
  if (place + 2 >= places_count) return {.first = Cut::bad};
  const std::uint64_t mantissa = (bits & 0xfffffffffffffULL) | (1ULL << 52U);
  const auto shift = static_cast<unsigned>(above % 32);
  const std::uint64_t low = (mantissa & 0xffffffffU) << shift;  // 64 bits at most
  const std::uint64_t high = (mantissa >> 32U) << shift;        // 53 bits at most
  return {.first = place,
          .pieces = {static_cast<std::int64_t>(low & 0xffffffffU),
                     static_cast<std::int64_t>((low >> 32U) + (high & 0xffffffffU)),
                     static_cast<std::int64_t>(high >> 32U)}};
}

}  // namespace weft::detail
