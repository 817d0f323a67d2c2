#pragma once
// Elias-Fano coding: ascending numbers below a limit, in few bits.
//
// 1. The low bits of each number, log2(limit / count) of them, are written as they are.
// 2. The high parts are written in unary, as differences from one number to the next.
// This takes at most 2 + log2(limit / count) bits a number, half a bit more than the least possible. One
// count and limit always give the same number of bytes.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::detail {

class EliasFano {
 public:
  /// @param count how many numbers there are, at least 1; each is below `limit`
  EliasFano(std::int64_t count, std::int64_t limit);

  std::int64_t bytes() const { return low_bytes_ + high_bytes_; }
  /// @param numbers ascending and distinct
  void encode(std::span<std::byte> encoded, std::span<const std::int64_t> numbers) const;

  /// Calls `visit(i, number)` for each number, in order.
  template <class Visit>
  void decode(std::span<const std::byte> encoded, Visit visit) const {
    const auto bit = [&](std::int64_t at) {
      return (std::to_integer<unsigned>(encoded[static_cast<std::size_t>(at / 8)]) >> (at % 8)) & 1U;
    };
    std::int64_t high_bit = low_bytes_ * 8;
    std::int64_t high = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      for (; bit(high_bit) == 0; ++high_bit) {
        if (high_bit + 1 == bytes() * 8) return;  // not valid: stop
        ++high;
      }
      ++high_bit;
      std::int64_t low = 0;
      for (int b = 0; b < low_bits_; ++b) low |= static_cast<std::int64_t>(bit(i * low_bits_ + b)) << b;
      visit(i, (high << low_bits_) | low);
    }
  }

 private:
  std::int64_t count_;
  int low_bits_;
  std::int64_t low_bytes_;
  std::int64_t high_bytes_;
};

inline EliasFano::EliasFano(std::int64_t count, std::int64_t limit)
    : count_(count),
      low_bits_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(limit / count))) - 1),
      low_bytes_((count * low_bits_ + 7) / 8),
      high_bytes_((count + ((limit - 1) >> low_bits_) + 7) / 8) {}

inline void EliasFano::encode(std::span<std::byte> encoded, std::span<const std::int64_t> numbers) const {
  std::ranges::fill(encoded, std::byte{0});
  const auto set = [&](std::int64_t at) {
    encoded[static_cast<std::size_t>(at / 8)] |= static_cast<std::byte>(1U << (at % 8));
  };
  std::int64_t low_bit = 0;
  std::int64_t i = 0;
  for (const std::int64_t number : numbers) {
    for (int b = 0; b < low_bits_; ++b, ++low_bit) {
      if (((number >> b) & 1) != 0) set(low_bit);
    }
    set(low_bytes_ * 8 + (number >> low_bits_) + i++);
  }
}

}  // namespace weft::detail
