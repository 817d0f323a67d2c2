#include "gradient/in_windows.hpp"

#include <algorithm>

#include "core/elementwise.hpp"

namespace weft::detail {

InWindows::InWindows(const BucketPlan& plan, std::int64_t capacity, Device device, int ranks,
                     bool means_on_host)
    : windows_(plan, capacity),
      store_(plan, device, ranks, means_on_host),
      earlier_(plan.buckets().size()),
      admitted_(plan.buckets().size()),
      asked_(static_cast<std::size_t>(plan.layout().parameters())) {
  for (const Bucket& bucket : plan.buckets()) gaps_.push_back(gaps_of(bucket, plan.layout()));
}

void InWindows::begin_micro_step(std::vector<Event>& reduced) {
  earlier_.swap(reduced);
  std::ranges::fill(reduced, Event());
  for (auto& streams : admitted_) streams.clear();
  asked_.assign(asked_.size(), false);
}

bool InWindows::admits(std::size_t bucket, const Stream& stream) {
  auto& streams = admitted_[bucket];
  if (std::ranges::find(streams, stream) != streams.end()) return true;
  streams.push_back(stream);
  return false;
}

void InWindows::clear_gaps(std::size_t bucket, View gradient, const Stream& lane) const {
  const Gaps& gaps = gaps_[bucket];
  if (gaps.empty()) return;
  if (!lane.device().is_host()) {
    for (const auto& [begin, end] : gaps) fill(gradient.slice(begin, end - begin), 0, lane);
    return;
  }
  Stream(lane).run([gradient, &gaps] {
    for (const auto& [begin, end] : gaps) on_host::fill(gradient.slice(begin, end - begin), 0);
  });
}

}  // namespace weft::detail
