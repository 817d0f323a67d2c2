#pragma once
// Sums over the samples of a batch, in an order that no cut of the batch between ranks changes.
//
// A binary tree stands over the samples of all ranks: its blocks of height h are the samples [k 2^h, (k + 1) 2^h). The sum of a block is that of
// its two halves; a half without a summand is left out. Two neighbouring summands are therefore added when all between them and their smallest
// common block has been: a stack does that in the order of samples (a Cartesian tree by the heights of common blocks).
//
// A rank that has only some of the samples adds what lies in blocks that no other rank has samples of, and hands the rest on as several parts.
// Whoever has the parts of all ranks goes on with them as if they were samples: the sum is the same to the bit.

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::detail {

/// The samples that a rank has of a batch.
struct SampleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t all = 0;  ///< of all ranks

  /// Whether no other rank has a sample in the block of 2^height samples around `sample`, which is one of this rank's.
  bool has_whole_block(std::int64_t sample, int height) const {
    const std::int64_t begin = sample >> height << height;
    return begin >= first && (first + count == all || begin + (std::int64_t{1} << height) <= first + count);
  }
  /// Whether a sum over any of its samples is one part.
  bool is_one_part() const;
};

/// Of the smallest block that has both.
inline int height_over(std::int64_t one, std::int64_t other) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(one ^ other)));
}

/// Adds rows of `columns` numbers; with 0 columns it counts parts. Its memory is kept for the next sum.
class SampleSum {
 public:
  /// Forgets what was pushed. @param mine adds within blocks that are this rank's alone; null adds everything
  void begin(int columns, const SampleRange* mine);
  /// A summand behind those that were pushed before: of a sample, or of a block that `sample` is in. @returns room for its numbers, until the
  /// next call
  float* push(std::int64_t sample);
  struct Parts {
    std::span<const std::int64_t> samples;  ///< one of each part's block
    float* values;                          ///< of each part in turn
  };
  /// What is left; valid until the next push(), which begins another sum.
  Parts finish();

 private:
  /// Adds the last summand to the one before it, if that may be.
  bool merge();

  int columns_ = 0;
  const SampleRange* mine_ = nullptr;
  bool finished_ = false;
  std::vector<std::int64_t> samples_{};
  std::vector<int> heights_{};  ///< of the block over each summand and the one before it
  std::vector<float> values_{};
};

}  // namespace weft::detail
