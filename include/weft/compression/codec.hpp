#pragma once
// A codec: what gradients look like on the wire. It is a stateless pair of functions, encode and decode, over
// f32 in host memory.
//
//   auto codec = fp16_codec();
//   std::vector<std::byte> encoded(codec->encoded_bytes(n));
//   codec->encode(encoded, gradients, position);
//   codec->decode(sums, encoded, position, Into::add);         // sums += the decoded gradients
//
// A codec knows neither ranks nor collectives; its algebra says which collectives it needs (codec_hook).
//
// Random choices depend on the codec's seed and on a `CodingPosition` only: the step, the rank, and the place
// in the flat space. So results do not change with threads, with the instruction set, or with how a range is
// cut into calls, as long as the cuts are at multiples of block(). Any thread may use a codec.
//
// WRONG: adding two gradients that int8 has compressed. The blocks of two ranks have two scales, and 8 bits
// cannot hold a sum. Decode, add in f32, encode again.
//
// Blocks. fp16, fp8 and int8 compress 256 elements at a time. A byte before each block holds the power of two
// that takes its largest magnitude to the upper end of the format. That scale is exact, so a block of tiny
// gradients loses no more than one of large ones, and nothing is divided by the number of ranks before it is
// rounded. bf16 has the range of f32, so it needs neither scales nor blocks.
//
// int4 and fp4 have a scale for each 64 elements, in bf16: a power of two would leave up to half of their few
// numbers unused.
//
// A block with NaN, Inf or a magnitude above 2^118 (FLT_MAX / 1024: sums over up to 1023 ranks stay finite)
// decodes to NaN in all of its elements; of int4 and fp4, in the 64 of its scale. bf16 keeps such elements one by one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace weft {

enum class Algebra : std::uint8_t {
  linear,  ///< the output is f32 that may be summed: an all_reduce
  /// Each block is compressed by itself, and the results are concatenated: an all_to_all of parts, sums in
  /// f32, an all_gather.
  blockwise,
  whole,  ///< a call makes one piece that cannot be cut: an all_gather, and every rank sums
};

enum class Rounding : std::uint8_t {
  nearest,     ///< to nearest, ties to even
  stochastic,  ///< to one of the two neighbours at random, so that the expected result is the value
};

enum class Into : std::uint8_t { set, add, subtract };

/// Where a call stands: what its random choices depend on, beside the codec's seed.
struct CodingPosition {
  std::uint64_t step = 0;
  int rank = 0;
  std::int64_t begin = 0;  ///< offset of the first element in the flat space; a multiple of block()
};

/// The largest error of a decoded element: the greatest of the three.
struct Bound {
  double of_element = 0;  ///< times its magnitude
  double of_block = 0;    ///< times the largest magnitude of its block
  double absolute = 0;    ///< near the smallest numbers of f32

  double operator()(double element, double largest_of_block) const;
};

class Codec {
 public:
  virtual ~Codec() = default;

  /// The name that codec_named() takes, and the seed if there is one. Ranks compare names.
  virtual std::string name() const = 0;
  virtual Algebra algebra() const = 0;
  /// Elements of one block, at whose multiples a range may be cut; 1 where there are no blocks.
  virtual std::int64_t block() const = 0;
  /// Bytes of `count` elements, compressed.
  virtual std::int64_t encoded_bytes(std::int64_t count) const = 0;
  /// Holds for magnitudes up to 2^118. Sparse codecs lose all of an element or nothing.
  virtual Bound bound() const = 0;

  /// @throws Error (usage) when `encoded` is not encoded_bytes() long, or the position begins within a block
  void encode(std::span<std::byte> encoded, std::span<const float> values,
              const CodingPosition& position) const;
  /// @param position the one that encode() was given; random_k_codec needs it, except for its rank
  /// @throws Error (usage) like encode()
  void decode(std::span<float> values, std::span<const std::byte> encoded, const CodingPosition& position,
              Into into = Into::set) const;

 private:
  void expect(std::size_t encoded, std::size_t values, const CodingPosition& position) const;
  virtual void do_encode(std::span<std::byte> encoded, std::span<const float> values,
                         const CodingPosition& position) const = 0;
  virtual void do_decode(std::span<float> values, std::span<const std::byte> encoded,
                         const CodingPosition& position, Into into) const = 0;
};

enum class Fp8 : std::uint8_t { e4m3, e5m2 };  ///< bits of exponent and mantissa, as defined by OCP

/// 2.004 bytes an element. The error is 2^-11 of the element, or 2^-39 of its block's largest.
std::shared_ptr<const Codec> fp16_codec();
/// 2 bytes an element. The error is 2^-8 of the element, or 2^-134.
std::shared_ptr<const Codec> bf16_codec();
/// 1.004 bytes an element. The error of e4m3 is 2^-4 of the element or 2^-17 of the block's largest, of e5m2
/// 2^-3 or 2^-31. Stochastic rounding doubles it.
std::shared_ptr<const Codec> fp8_codec(Fp8 format, Rounding rounding = Rounding::nearest,
                                       std::uint64_t seed = 0);
/// 1.004 bytes an element. The error is 1/127 of the block's largest, or 2^-143; stochastic rounding doubles
/// it.
std::shared_ptr<const Codec> int8_codec(Rounding rounding = Rounding::nearest, std::uint64_t seed = 0);
/// 0.531 bytes an element: whole numbers from -7 to 7, in two's complement. The error is 1/13 of the largest of 64, or 2^-127; stochastic
/// rounding doubles it. Of an odd number of elements the last has a byte for itself.
std::shared_ptr<const Codec> int4_codec(Rounding rounding = Rounding::nearest, std::uint64_t seed = 0);
/// As many bytes: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign (E2M1 of the OCP Microscaling formats, section 5.3.3). The error is 1/4 of the element, or
/// 1/23 of the largest of 64, or 2^-128; stochastic rounding doubles it.
std::shared_ptr<const Codec> fp4_codec(Rounding rounding = Rounding::nearest, std::uint64_t seed = 0);
/// Keeps the ceil(fraction * count) largest magnitudes of a call, exactly, in f32; among equal ones the
/// first. The rest is lost. A place takes about 2 + log2(1 / fraction) bits (Elias-Fano coding); calls of one
/// length make as many bytes each. @throws Error (usage) unless 0 < fraction <= 1
std::shared_ptr<const Codec> top_k_codec(double fraction);
/// Keeps ceil(fraction * 4096) elements of every 4096, exactly, in f32; each has the same probability. The
/// rest is lost. All ranks choose the same elements in a step, so what they send can be summed. Values are
/// not scaled up: use it with error feedback. @throws Error (usage) unless 0 < fraction <= 1
std::shared_ptr<const Codec> random_k_codec(double fraction, std::uint64_t seed = 0);

/// Takes "fp16", "bf16", "fp8-e4m3", "fp8-e5m2", "int8", "int4", "fp4" (the last five also with ":stochastic"),
/// "top-k:0.01" and "random-k:0.01". @throws Error (usage) that lists these and names the nearest
std::shared_ptr<const Codec> codec_named(const std::string& name);

}  // namespace weft
