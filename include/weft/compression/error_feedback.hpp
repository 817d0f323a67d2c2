#pragma once
// Error feedback: what a codec lost of a gradient is kept, and added to what it encodes next.
//
//   feedback.cover(plan.end());
//   bool good = feedback.encode(encoded, values, position);    // values now hold what the codec lost
//   feedback.keep(values, position.begin);
//   ...                                                 // after the whole flat space, if all ranks are good:
//   feedback.commit();
//
// It wraps any codec. Errors are stored by element of the flat space, so a new bucket plan changes nothing.
// They are stored twice: what a step keeps is read after the next commit() only. A step with NaN is not
// committed, and leaves no trace.
//
// WRONG: commit() after a part of the flat space. The rest would go back by two steps.
//
// Calls on disjoint ranges may run concurrently; cover() and commit() must run alone. Over any number of
// steps, the sum of all decoded values plus the error is the sum of all gradients. With top-k and errors in
// f32 that is exact but for the rounding of `values + error`; in 16 bits a step adds 2^-15 of the largest
// error of each block of 256.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "weft/compression/codec.hpp"
#include "weft/compression/kept_as.hpp"
#include "weft/core/buffer.hpp"

namespace weft {

class ErrorFeedback {
 public:
  /// Ranges begin at multiples of this many elements.
  static constexpr std::int64_t block = 256;

  /// @param kept 16 bits take 4 bytes an element (errors are stored twice), f32 takes 8
  /// @throws Error (usage) for KeptAs::nothing
  explicit ErrorFeedback(std::shared_ptr<const Codec> codec, KeptAs kept = KeptAs::sixteen_bits);

  /// Makes room for the errors of a flat space of `elements`; errors that are stored already stay.
  /// @param device where they lie; on a CUDA device kernels alone read and write them (places())
  void cover(std::int64_t elements, Device device = {});

  /// Encodes values + error, and leaves in `values` what the codec lost.
  /// @returns true if that can be kept: values + error had no NaN, no Inf and no magnitude above 2^118
  bool encode(std::span<std::byte> encoded, std::span<float> values, const CodingPosition& position) const;
  /// Stores what encode() left. @throws Error (usage) if `begin` lies within a block, or the range beyond
  /// cover()
  void keep(std::span<const float> lost, std::int64_t begin);
  /// What keep() stored since the last commit is read from now on.
  void commit() { read_ = 1 - read_; }

  /// The errors of the whole flat space.
  struct Places {
    const std::byte* committed;
    std::byte* next;  ///< what commit() makes the committed ones
    bool are_f32;     ///< else blocks of i16 (compression/codecs/block_kernel.hpp)
  };
  Places places();

  /// The committed errors of the whole flat space, in host memory. Exact: restore() gives the same stored bytes.
  std::vector<float> saved() const;
  /// @param errors of the whole flat space, or its beginning; the rest is zero
  void restore(std::span<const float> errors);

  /// values += the committed error.
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
