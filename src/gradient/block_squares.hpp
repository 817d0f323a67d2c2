#pragma once
// Sums of squares of the means, per fixed block of the flat space, taken as buckets land.
//
// A block that lies in two buckets is summed by whichever lands last. So its sum is of final values in one
// fixed order, whatever the buckets were.

#include <atomic>
#include <vector>

#include "weft/core/buffer.hpp"
#include "weft/core/stream.hpp"
#include "weft/gradient/param_layout.hpp"

namespace weft::detail {

class BlockSquares {
 public:
  /// Elements of the flat space.
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  /// @throws Error (usage) unless `block` is a multiple of 64
  BlockSquares(const ParamLayout& layout, Device device, std::int64_t block);

  /// @param landing by bucket, what there will be means of on this rank. Between steps
  void adopt(const std::vector<Range>& landing);
  /// The means of `range`, one of those, are there when `lane` gets here.
  /// @param values elements of the flat space from `begin` on: all of the blocks that lie in `range`
  void landed(Range range, ConstView values, std::int64_t begin, const Stream& lane);
  /// f64, by block; zero where this rank has no means.
  ConstView sums() const { return sums_.view(); }

 private:
  template <class Function>
  void for_complete_blocks(Range range, Function function);
  void sum(std::int64_t first, std::int64_t last, ConstView values, std::int64_t begin, const Stream& stream);

  std::int64_t size_;
  std::int64_t block_;
  Buffer sums_;
  struct Count {
    std::int64_t parts = 0;               // ranges that a block lies in
    std::atomic<std::int64_t> landed{0};  // of these, in all steps so far
  };
  std::vector<Count> counts_;
};

}  // namespace weft::detail
