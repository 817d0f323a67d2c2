#pragma once
// What gradients look like on the wire: a stateless pair of functions over host memory, f32 on one side.
//
// A codec knows neither ranks nor collectives; its algebra says which of them it needs (codec_hook). What it
// chooses by chance depends on its seed and a `Turn` only: the step, the rank, and the place in the flat
// space. So results do not depend on how calls are cut at multiples of block(), on threads, or on the
// instruction set. Any thread may use one.
//
//   auto codec = fp16_codec();
//   std::vector<std::byte> code(codec->encoded_bytes(n));
//   codec->encode(code, gradients, turn);
//   codec->decode(sums, code, turn, Into::add);             // sums += what was meant
//
// WRONG: adding two codes of int8. The blocks of two ranks have two scales, and 8 bits hold no sum: decode,
// add in f32, encode again.
//
// Blocks. fp16, fp8 and int8 code 256 elements at a time, with one byte before them for a power of two that
// takes the largest magnitude to the upper end of what the format holds. It is exact, so that a block of tiny
// gradients loses no more than one of large ones, and nothing is divided by a number of ranks before it is
// rounded. bf16 has the range of f32 and needs no scale, and so no blocks. A block that holds NaN, Inf or
// more than 2^118 (FLT_MAX / 1024: sums over up to 1023 ranks stay finite) is NaN when it is decoded, all of
// it; bf16 keeps these element by element.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace weft {

enum class Algebra : std::uint8_t {
  linear,  ///< codes are f32 that may be summed: an all_reduce
  /// Blocks are coded each for itself, and codes of blocks are put one behind the other: an all_to_all of
  /// parts, sums in f32, an all_gather.
  blockwise,
  whole,  ///< a call is one code: an all_gather, and every rank sums
};

enum class Rounding : std::uint8_t {
  nearest,     ///< to nearest, ties to even
  stochastic,  ///< to one of the two neighbours, the mean of which over many is the value
};

enum class Into : std::uint8_t { set, add, subtract };

/// Where a call stands, for what is left to chance.
struct Turn {
  std::uint64_t step = 0;
  int rank = 0;
  std::int64_t begin = 0;  ///< the place of the first element in the flat space; a multiple of block()
};

/// How far a decoded element can be from what was encoded: by the greatest of the three.
struct Bound {
  double of_element = 0;  ///< times its magnitude
  double of_block = 0;    ///< times the largest magnitude of its block
  double absolute = 0;    ///< what f32 itself hardly knows

  double operator()(double element, double largest_of_block) const;
};

class Codec {
 public:
  virtual ~Codec() = default;

  /// As codec_named() takes it, and the seed where there is one: ranks compare names.
  virtual std::string name() const = 0;
  virtual Algebra algebra() const = 0;
  /// Elements that are coded for themselves; 1 where a call is one code.
  virtual std::int64_t block() const = 0;
  /// Of a call with so many elements.
  virtual std::int64_t encoded_bytes(std::int64_t count) const = 0;
  /// For magnitudes up to 2^118. Sparse codes lose all of an element or nothing.
  virtual Bound bound() const = 0;

  /// @throws Error (usage) when `code` is not encoded_bytes() long, or the turn begins within a block
  void encode(std::span<std::byte> code, std::span<const float> values, const Turn& turn) const;
  /// The same turn as encoded it; random_k_codec chooses the same elements again, whatever the rank.
  /// @throws Error (usage) as encode()
  void decode(std::span<float> values, std::span<const std::byte> code, const Turn& turn,
              Into into = Into::set) const;

 private:
  void expect(std::size_t code, std::size_t values, const Turn& turn) const;
  virtual void do_encode(std::span<std::byte> code, std::span<const float> values,
                         const Turn& turn) const = 0;
  virtual void do_decode(std::span<float> values, std::span<const std::byte> code, const Turn& turn,
                         Into into) const = 0;
};

enum class Fp8 : std::uint8_t { e4m3, e5m2 };  ///< bits of exponent and mantissa, as OCP defines them

/// 2.004 bytes an element. Off by 2^-11 of the element, or 2^-39 of its block's largest.
std::shared_ptr<const Codec> fp16_codec();
/// 2 bytes. Off by 2^-8 of the element, or 2^-134.
std::shared_ptr<const Codec> bf16_codec();
/// 1.004 bytes. e4m3: 2^-4 of the element or 2^-17 of the block's largest; e5m2: 2^-3 or 2^-31. Stochastic:
/// twice that.
std::shared_ptr<const Codec> fp8_codec(Fp8 format, Rounding rounding = Rounding::nearest,
                                       std::uint64_t seed = 0);
/// 1.004 bytes. Off by 1/127 of the block's largest, or 2^-143; stochastic: twice that.
std::shared_ptr<const Codec> int8_codec(Rounding rounding = Rounding::nearest, std::uint64_t seed = 0);
/// The ceil(fraction * count) largest magnitudes of a call, of equal ones the first, in f32 and exact; the
/// rest is lost. Their places take about 2 + log2(1 / fraction) bits each (Elias and Fano's code), the same
/// number in every call of a length. @throws Error (usage) unless 0 < fraction <= 1
std::shared_ptr<const Codec> top_k_codec(double fraction);
/// ceil(fraction * 4096) elements of every 4096, in f32 and exact, each with the same probability; the rest
/// is lost. All ranks choose the same in a step, so that codes are linear. Not scaled up: meant for error
/// feedback. @throws Error (usage) unless 0 < fraction <= 1
std::shared_ptr<const Codec> random_k_codec(double fraction, std::uint64_t seed = 0);

/// "fp16", "bf16", "fp8-e4m3", "fp8-e5m2", "int8", the last three also with ":stochastic"; "top-k:0.01",
/// "random-k:0.01". @throws Error (usage) that lists these and names the nearest
std::shared_ptr<const Codec> codec_named(const std::string& name);

}  // namespace weft
