#include "checkpoint/checksums.hpp"

#include <charconv>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/strings.hpp"

namespace weft::detail {

constexpr std::size_t digits = 16;

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string digits_of(std::span<const std::uint64_t> checksums) {
  std::vector<unsigned char> bytes;
  bytes.reserve(checksums.size() * sizeof(std::uint64_t));
  for (const std::uint64_t one : checksums) {
    for (unsigned shift = 64; shift > 0; shift -= 8)
      bytes.push_back(static_cast<unsigned char>(one >> (shift - 8)));
  }
  return hex_digits(bytes);
}

std::vector<std::uint64_t> checksums_in(std::string_view text) {
  std::vector<std::uint64_t> all;
  if (text.size() % digits != 0 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return all;
  all.reserve(text.size() / digits);
  for (std::size_t at = 0; at < text.size(); at += digits) {
    std::uint64_t one = 0;
    std::from_chars(text.data() + at, text.data() + at + digits, one, 16);
    all.push_back(one);
  }
  return all;
}

}  // namespace weft::detail
