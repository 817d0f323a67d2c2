#pragma once
// The loops of block codecs: 256 elements in few bits, behind one byte for the power of two that scales them.
//
// A block is coded in three steps: find the largest magnitude, scale by the power of two that takes it
// to the upper end of the format, round each element. With a scale, a block of n-byte elements takes 1 +
// 256 n bytes.
//
// The byte is e + 136, where 2^e is the largest magnitude's power of two. e is at least -136; a block whose
// largest magnitude is smaller is scaled as if it were 2^-136. 255 says that the block is NaN. A scale may
// lie beyond what f32 holds (2^150), so it is applied as two factors: the first product is exact, and only
// the second, on the way back to subnormal numbers, could round.
//
// Formats of 4 bits (i4, e2m1) have a scale for each 64 elements, a bf16, for a power of two wastes up to half of
// their few steps. It is the largest magnitude divided by the format's (7 or 6), rounded up, and at least 2^-126. An
// element is multiplied by 1 / scale, both of them f32, and rounded. 64 elements take 2 + 32 bytes: the scale, then two elements
// a byte, the first of them in its lower half; a last byte may hold one. A scale of NaN says that the 64 are NaN.
//
// The loops exist twice, with the same bits: block_kernel.cpp with the widest instructions of this machine,
// block_plain.cpp without vectors.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "weft/compression/codec.hpp"

namespace weft::detail {

/// i16 stores errors (error feedback); the others travel.
enum class BlockFormat : std::uint8_t { f16, bf16, e4m3, e5m2, i8, i4, e2m1, i16 };

inline constexpr std::int64_t block_elements = 256;
inline constexpr std::uint32_t largest_coded = 0x7a800000U;  // 2^118, as the bits of an f32
inline constexpr int lowest_exponent = -136;
inline constexpr std::uint8_t nan_block = 255;
inline constexpr std::int64_t four_bit_elements = 64;  // that share a scale; they divide a block
inline constexpr std::int64_t four_bit_scale_bytes = 2;
inline constexpr std::int64_t four_bit_bytes = four_bit_scale_bytes + four_bit_elements / 2;
inline constexpr std::uint16_t nan_scale = 0x7fc0;

constexpr bool is_four_bit(BlockFormat format) {
  return format == BlockFormat::i4 || format == BlockFormat::e2m1;
}
/// Not of formats of 4 bits.
constexpr std::int64_t element_bytes(BlockFormat format) {
  return format == BlockFormat::f16 || format == BlockFormat::bf16 || format == BlockFormat::i16 ? 2 : 1;
}
/// Of a block; not of formats of 4 bits.
constexpr std::int64_t scale_bytes(BlockFormat format) {
  return format == BlockFormat::bf16 ? 0 : 1;
}
constexpr std::int64_t bytes_of(BlockFormat format, std::int64_t count) {
  if (is_four_bit(format))
    return (count + four_bit_elements - 1) / four_bit_elements * four_bit_scale_bytes + (count + 1) / 2;
  return (count + block_elements - 1) / block_elements * scale_bytes(format) + count * element_bytes(format);
}

constexpr std::int64_t block_bytes(BlockFormat format) {
  return bytes_of(format, block_elements);
}

/// The scale of 64 elements in 4 bits, as the bits of a bf16: no magnitude is above `top` times it.
/// @param largest bits of the largest magnitude
constexpr std::uint16_t four_bit_scale(std::uint32_t largest, float top) {
  if (largest > largest_coded) return nan_scale;
  constexpr std::uint32_t least =
      0x0080;  // 2^-126, so that neither the scale nor its reciprocal is subnormal
  const auto most = std::bit_cast<float>(largest);
  std::uint32_t upper = (std::bit_cast<std::uint32_t>(most / top) + 0xffffU) >> 16U;
  if (std::bit_cast<float>(upper << 16U) * top < most)
    ++upper;  // the quotient was rounded down; the product is exact
  return static_cast<std::uint16_t>(upper < least ? least : upper);
}
constexpr float four_bit_factor(std::uint16_t scale) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(scale) << 16U);
}

/// The scale byte of a block.
/// @param largest bits of the largest magnitude
/// @param carry added to them first, where a mantissa near 2 would round out of the format
constexpr std::uint8_t scale_of(std::uint32_t largest, std::uint32_t carry) {
  if (largest > largest_coded) return nan_block;
  constexpr int bias = 127;
  int exponent = 0;
  if (largest >= 0x00800000U) {
    exponent = static_cast<int>((largest + carry) >> 23U) - bias;
  } else {  // a subnormal number is this integer times 2^-149
    const auto normal = std::bit_cast<std::uint32_t>(static_cast<float>(largest));
    exponent = largest == 0 ? lowest_exponent : static_cast<int>((normal + carry) >> 23U) - bias - 149;
  }
  return static_cast<std::uint8_t>((exponent < lowest_exponent ? lowest_exponent : exponent) -
                                   lowest_exponent);
}

/// Two powers of two.
struct SplitPower {
  float first;
  float second;
};

/// The product of the two is 2^exponent, for |exponent| <= 252.
constexpr SplitPower factors_of(int exponent) {
  const auto power = [](int of) { return std::bit_cast<float>(static_cast<std::uint32_t>(of + 127) << 23U); };
  return {power(exponent / 2), power(exponent - exponent / 2)};
}

/// Selects the random numbers of a call: each element of each block of the flat space has its own.
struct RandomKey {
  std::uint64_t key = 0;
  std::int64_t first_block = 0;
};

/// SplitMix64 (Steele, Lea and Flood): 64 well mixed bits.
constexpr std::uint64_t mixed(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15U;
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31U);
}

/// Selects the numbers that a rank draws in a step, from `first_block` on.
constexpr RandomKey random_key(std::uint64_t seed, int rank, std::uint64_t step, std::int64_t first_block) {
  return {mixed(mixed(mixed(seed) + static_cast<std::uint64_t>(rank)) ^ step), first_block};
}

/// The parts of a block codec.
struct BlockForm {
  BlockFormat format = BlockFormat::f16;
  Rounding rounding = Rounding::nearest;
  std::uint64_t seed = 0;
};
/// nullopt for codecs that do not work by blocks, and for codecs of users.
std::optional<BlockForm> block_form(const Codec& codec);

struct BlockKernel {
  /// @param random used by stochastic rounding only
  void (*encode)(BlockFormat format, Rounding rounding, std::byte* encoded, const float* values,
                 std::int64_t count, RandomKey random);
  void (*decode)(BlockFormat format, Into into, float* values, const std::byte* encoded, std::int64_t count);
  /// Bits of the largest magnitude. With NaN among the values, they are above those of infinity.
  std::uint32_t (*largest)(const float* values, std::int64_t count);
};

/// The kernel for this machine.
const BlockKernel& block_kernel();
/// The kernel without vectors: used in builds without Highway, and the reference in tests.
const BlockKernel& plain_block_kernel();

}  // namespace weft::detail
