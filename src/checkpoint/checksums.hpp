#pragma once
// XXH3 of 64 bits, seed 0, as the xxHash library and its bindings in other languages compute it. Bytes of tensors have one for every block
// of a piece, so that a part of a piece is checked without the rest of it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::detail {

inline constexpr std::size_t checkpoint_block = std::size_t{1} << 20;

std::uint64_t checksum(std::span<const std::byte> bytes);
inline std::uint64_t checksum(std::string_view bytes) {
  return checksum(std::as_bytes(std::span(bytes)));
}

/// 16 hexadecimal digits each, one after the other.
std::string digits_of(std::span<const std::uint64_t> checksums);
/// Nothing where `digits` are not such.
std::vector<std::uint64_t> checksums_in(std::string_view digits);

}  // namespace weft::detail
