#include "gradient/bad_value_watch.hpp"

#include <algorithm>

#include "core/elementwise.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

// What a rank tells: NaN, infinite values, the first parameter that has any.
constexpr std::size_t words = 3;

}  // namespace

BadValueWatch::BadValueWatch(const ParamLayout& layout, Device device)
    : layout_(layout),
      counts_(Buffer::on(device, DataType::i64, 2 * std::int64_t{layout.parameters()})),
      here_(static_cast<std::size_t>(counts_.count())),
      mine_(words),
      fetch_(device) {}

void BadValueWatch::begin_step(const Stream& zero) {
  fill(counts_.view(), 0, zero);
}

void BadValueWatch::count(const Bucket& bucket, const GradientSpace& gradients, const Stream& lane) {
  const auto count_one = [this, gradients, begin = bucket.begin, end = bucket.end](ParamId id,
                                                                                   const Stream& stream) {
    const std::int64_t first = std::max(begin, layout_.offset(id));
    const std::int64_t last = std::min(end, layout_.offset(id) + layout_.count(id));
    if (first >= last) return;
    count_bad(counts_.view().slice(2 * static_cast<std::int64_t>(index(id)), 2),
              gradients.slice(first, last - first), stream);
  };
  if (!lane.device().is_host()) {
    for (const ParamId id : bucket.params) count_one(id, lane);
    return;
  }
  Stream(lane).run([count_one, &params = bucket.params] {
    for (const ParamId id : params) count_one(id, Stream());
  });
}

void BadValueWatch::summarize() {
  mine_ = {0, 0, -1};
  for (std::size_t i = 0; i < here_.size(); i += 2) {
    if (here_[i] + here_[i + 1] == 0) continue;
    mine_[0] += here_[i];
    mine_[1] += here_[i + 1];
    if (mine_[2] < 0) mine_[2] = static_cast<std::int64_t>(i / 2);
  }
}

void BadValueWatch::tell(Communicator& comm, std::uint64_t step, const std::vector<Event>& counted) {
  step_ = step;
  rank_ = comm.rank();
  all_.resize(words * static_cast<std::size_t>(comm.size()));
  for (const Event& event : counted) fetch_.wait(event);
  copy(View(std::span(here_)), counts_.view(), fetch_);
  host_.wait(fetch_.record());
  host_.run([this] { summarize(); });
  told_ = comm.all_gather(ConstView(std::span<const std::int64_t>(mine_)), View(std::span(all_)), host_);
  is_read_ = false;
}

const std::vector<BadValues>& BadValueWatch::found() {
  if (is_read_) return found_;
  told_.wait();
  is_read_ = true;
  found_.clear();
  for (std::size_t at = 0; at < all_.size(); at += words) {
    if (all_[at + 2] < 0) continue;
    const auto rank = static_cast<int>(at / words);
    found_.push_back({.rank = rank,
                      .step = step_,
                      .first = ParamId{static_cast<std::int32_t>(all_[at + 2])},
                      .nans = all_[at],
                      .infinities = all_[at + 1]});
    if (rank != rank_) continue;
    log::warn(text("rank ", rank, ": ", all_[at], " NaN and ", all_[at + 1],
                   " infinite values in its gradients of step ", step_, ", first in ",
                   layout_.name(found_.back().first)));
  }
  return found_;
}

}  // namespace weft::detail
