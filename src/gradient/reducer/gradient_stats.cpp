#include "gradient/reducer/gradient_stats.hpp"

#include <algorithm>

#include "core/base/round_up.hpp"
#include "core/memory/elementwise.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

// What a rank shares: its number of NaN, of infinite values, and the first parameter that has any.
constexpr std::size_t norm_words = 3;

}  // namespace

BadValueCounter::BadValueCounter(const ParamLayout& layout, Device device, bool logs)
    : layout_(layout),
      counts_(Buffer::on(device, DataType::i64, 2 * std::int64_t{layout.parameters()})),
      here_(static_cast<std::size_t>(counts_.count())),
      mine_(norm_words),
      fetch_(device),
      logs_(logs) {}

void BadValueCounter::begin_step(const Stream& stream) {
  fill(counts_.view(), 0, stream);
}

void BadValueCounter::count(const Bucket& bucket, ConstView gradient, const Stream& lane) {
  const auto count_one = [this, gradient, begin = bucket.begin, end = bucket.end](ParamId id,
                                                                                  const Stream& stream) {
    const std::int64_t first = std::max(begin, layout_.offset(id));
    const std::int64_t last = std::min(end, layout_.offset(id) + layout_.count(id));
    if (first >= last) return;
    count_bad(counts_.view().slice(2 * static_cast<std::int64_t>(index(id)), 2),
              gradient.slice(first - begin, last - first), stream);
  };
  if (!lane.device().is_host()) {
    for (const ParamId id : bucket.params) count_one(id, lane);
    return;
  }
  Stream(lane).run([count_one, &params = bucket.params] {
    for (const ParamId id : params) count_one(id, Stream());
  });
}

void BadValueCounter::summarize() {
  mine_ = {0, 0, -1};
  for (std::size_t i = 0; i < here_.size(); i += 2) {
    if (here_[i] + here_[i + 1] == 0) continue;
    mine_[0] += here_[i];
    mine_[1] += here_[i + 1];
    if (mine_[2] < 0) mine_[2] = static_cast<std::int64_t>(i / 2);
  }
}

void BadValueCounter::share(Communicator& comm, std::uint64_t step, const std::vector<Event>& counted) {
  step_ = step;
  rank_ = comm.rank();
  all_.resize(norm_words * static_cast<std::size_t>(comm.size()));
  for (const Event& event : counted) fetch_.wait(event);
  copy(View(std::span(here_)), counts_.view(), fetch_);
  host_.wait(fetch_.record());
  host_.run([this] { summarize(); });
  shared_ = comm.all_gather(ConstView(std::span<const std::int64_t>(mine_)), View(std::span(all_)), host_);
  is_read_ = false;
}

const std::vector<BadValues>& BadValueCounter::found() {
  if (is_read_) return found_;
  shared_.wait();
  is_read_ = true;
  found_.clear();
  for (std::size_t at = 0; at < all_.size(); at += norm_words) {
    if (all_[at + 2] < 0) continue;
    const auto rank = static_cast<int>(at / norm_words);
    found_.push_back({.rank = rank,
                      .step = step_,
                      .first = ParamId{static_cast<std::int32_t>(all_[at + 2])},
                      .nans = all_[at],
                      .infinities = all_[at + 1]});
    if (rank != rank_ || !logs_) continue;
    log::warn(text("rank ", rank, ": ", all_[at], " NaN and ", all_[at + 1],
                   " infinite values in its gradients of step ", step_, ", first in ",
                   layout_.name(found_.back().first)));
  }
  return found_;
}

BlockSquares::BlockSquares(const ParamLayout& layout, Device device, std::int64_t block)
    : size_(layout.size()), block_(block) {
  if (block < 64 || block % 64 != 0)
    throw Error(ErrorKind::usage, text("norm_block ", block, " is not a multiple of 64"));
  const std::int64_t blocks = ceil_div(size_, block);
  sums_ = Buffer::on(device, DataType::f64, blocks);
  counts_ = std::vector<Count>(static_cast<std::size_t>(blocks));
}

void BlockSquares::adopt(const std::vector<Range>& owned) {
  for (Count& count : counts_) {
    count.parts = 0;
    count.added.store(0, std::memory_order_relaxed);
  }
  for (const Range& range : owned) {
    for (std::int64_t block = range.begin / block_; block * block_ < std::min(range.end, size_); ++block)
      ++counts_[static_cast<std::size_t>(block)].parts;
  }
}

// Calls function(first, last) for every run of blocks [first, last) that this range completes.
template <class Function>
void BlockSquares::for_complete_blocks(Range range, Function function) {
  const std::int64_t end = std::min(range.end, size_);
  std::int64_t first = range.begin / block_;
  std::int64_t block = first;
  for (; block * block_ < end; ++block) {
    Count& count = counts_[static_cast<std::size_t>(block)];
    if ((count.added.fetch_add(1, std::memory_order_acq_rel) + 1) % count.parts == 0) continue;
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

// On the host, buckets on different lanes arrive in any order: each counts itself when its lane gets here. A
// device has one lane, so that the order in which the host submits is the order of arrival.
void BlockSquares::add(Range range, ConstView values, std::int64_t begin, const Stream& lane) {
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
