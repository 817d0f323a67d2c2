#include "gradient/block_squares.hpp"

#include <algorithm>

#include "core/elementwise.hpp"
#include "core/round_up.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

BlockSquares::BlockSquares(const ParamLayout& layout, Device device, std::int64_t block)
    : size_(layout.size()), block_(block) {
  if (block < 64 || block % 64 != 0)
    throw Error(ErrorKind::usage, text("norm_block ", block, " is not a multiple of 64"));
  const std::int64_t blocks = ceil_div(size_, block);
  sums_ = Buffer::on(device, DataType::f64, blocks);
  counts_ = std::vector<Count>(static_cast<std::size_t>(blocks));
}

void BlockSquares::adopt(const std::vector<Range>& landing) {
  for (Count& count : counts_) {
    count.parts = 0;
    count.landed.store(0, std::memory_order_relaxed);
  }
  for (const Range& range : landing) {
    for (std::int64_t block = range.begin / block_; block * block_ < std::min(range.end, size_); ++block)
      ++counts_[static_cast<std::size_t>(block)].parts;
  }
}

template <class Function>
void BlockSquares::for_complete_blocks(Range range, Function function) {
  const std::int64_t end = std::min(range.end, size_);
  std::int64_t first = range.begin / block_;
  std::int64_t block = first;
  for (; block * block_ < end; ++block) {
    Count& count = counts_[static_cast<std::size_t>(block)];
    if ((count.landed.fetch_add(1, std::memory_order_acq_rel) + 1) % count.parts == 0) continue;
    if (first < block) function(first, block);
    first = block + 1;
  }
  if (first < block) function(first, block);
}

void BlockSquares::sum(std::int64_t first, std::int64_t last, ConstView values, std::int64_t begin,
                       const Stream& stream) {
  const std::int64_t end = std::min(last * block_, size_);
  square_sums(sums_.view().slice(first, last - first),
              values.slice(first * block_ - begin, end - first * block_), block_, stream);
}

// Lanes of the host land in any order, which shows when they get there; a device has one, and its host does
// not see it land.
void BlockSquares::landed(Range range, ConstView values, std::int64_t begin, const Stream& lane) {
  const auto sum_on = [this, range, values, begin](const Stream& stream) {
    for_complete_blocks(
        range, [&](std::int64_t first, std::int64_t last) { sum(first, last, values, begin, stream); });
  };
  if (lane.device().is_host()) {
    Stream(lane).run([sum_on] { sum_on(Stream()); });
  } else {
    sum_on(lane);
  }
}

}  // namespace weft::detail
