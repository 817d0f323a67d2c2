#pragma once
// What a code loses is not lost: it is kept, and added to what is encoded next.
//
// Wraps any codec. The error lies by element of the flat space, so that a new plan of buckets changes
// nothing, and twice: what a step keeps is read from the next commit() on. A step that brought NaN is not
// committed, and leaves no trace.
//
//   feedback.cover(plan.end());
//   bool good = feedback.encode(code, values, turn);        // values now hold what the code lost
//   feedback.keep(values, turn.begin);
//   ...                                                     // all of the flat space, and all ranks are good:
//   feedback.commit();
//
// WRONG: commit() after a part of the flat space: the rest goes back by two steps.
//
// Calls on disjoint ranges may run at once; nothing runs beside cover() and commit(). The sum over steps of
// what was decoded, and the error, are the sum of what came in: with top-k and errors in f32 exactly but for
// the rounding of `values + error`; in 16 bits to 2^-15 of the largest error of each block of 256 a step.

#include <array>
#include <memory>

#include "weft/compression/codec.hpp"
#include "weft/compression/kept_as.hpp"
#include "weft/core/buffer.hpp"

namespace weft {

class ErrorFeedback {
 public:
  /// Ranges begin at multiples of so many elements.
  static constexpr std::int64_t block = 256;

  /// @param kept 4 bytes an element in sixteen bits, 8 in f32, both times. @throws Error (usage) for nothing
  explicit ErrorFeedback(std::shared_ptr<const Codec> codec, KeptAs kept = KeptAs::sixteen_bits);

  /// The flat space has so many elements, at least; errors that are there stay.
  void cover(std::int64_t elements);

  /// Encodes values + error, and leaves in `values` what the code lost of it.
  /// @returns whether an error can be kept of it: no NaN, no Inf, nothing beyond 2^118
  bool encode(std::span<std::byte> code, std::span<float> values, const Turn& turn) const;
  /// @throws Error (usage) within a block, or beyond what cover() said
  void keep(std::span<const float> lost, std::int64_t begin);
  void commit() { read_ = 1 - read_; }

  /// values += the error that the last commit left there.
  void add_to(std::span<float> values, std::int64_t begin) const;

 private:
  std::size_t offset(std::size_t count, std::int64_t begin) const;
  std::int64_t bytes(std::int64_t elements) const;

  std::shared_ptr<const Codec> codec_;
  KeptAs kept_;
  std::int64_t elements_ = 0;
  std::array<Buffer, 2> errors_;
  std::size_t read_ = 0;
};

}  // namespace weft
