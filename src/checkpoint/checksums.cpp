#include "checkpoint/checksums.hpp"

#include <charconv>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft::detail {

constexpr std::size_t digits = 16;

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string digits_of(std::span<const std::uint64_t> checksums) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string all;
  all.reserve(checksums.size() * digits);
  for (const std::uint64_t one : checksums) {
    for (int shift = 60; shift >= 0; shift -= 4) all += hex[(one >> static_cast<unsigned>(shift)) & 15U];
  }
  return all;
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
