#include "compression/elias_fano.hpp"

#include <algorithm>
#include <bit>

namespace weft::detail {

EliasFano::EliasFano(std::int64_t count, std::int64_t limit)
    : count_(count),
      low_bits_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(limit / count))) - 1),
      low_bytes_((count * low_bits_ + 7) / 8),
      high_bytes_((count + ((limit - 1) >> low_bits_) + 7) / 8) {}

void EliasFano::encode(std::span<std::byte> code, std::span<const std::int64_t> numbers) const {
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
