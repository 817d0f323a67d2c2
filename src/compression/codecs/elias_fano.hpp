#pragma once
// Ascending numbers below a limit in few bits: Elias and Fano's code.
//
// Of each number the low bits are written as they are; the high parts are written in unary, as the steps from
// one to the next. With log2(limit / count) low bits that is at most 2 + log2(limit / count) bits a number, a
// half more than what is possible at all, and always as many for one count and limit.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::detail {

class EliasFano {
 public:
  /// @param count of numbers, each below `limit`; at least 1
  EliasFano(std::int64_t count, std::int64_t limit);

  std::int64_t bytes() const { return low_bytes_ + high_bytes_; }
  /// @param numbers ascending, none twice
  void encode(std::span<std::byte> code, std::span<const std::int64_t> numbers) const;

  /// `visit(i, number)` for each in turn.
  template <class Visit>
  void decode(std::span<const std::byte> code, Visit visit) const {
    const auto bit = [&](std::int64_t at) {
      return (std::to_integer<unsigned>(code[static_cast<std::size_t>(at / 8)]) >> (at % 8)) & 1U;
    };
    std::int64_t high_bit = low_bytes_ * 8;
    std::int64_t high = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      for (; bit(high_bit) == 0; ++high_bit) {
        if (high_bit + 1 == bytes() * 8) return;  // no such code
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

inline void EliasFano::encode(std::span<std::byte> code, std::span<const std::int64_t> numbers) const {
  std::ranges::fill(code, std::byte{0});
  const auto set = [&](std::int64_t at) {
    code[static_cast<std::size_t>(at / 8)] |= static_cast<std::byte>(1U << (at % 8));
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
