// Gradients in a bucket ring: places, and the parts of the means that are kept. reducer/reducer_ring.cpp has the
// reducer's functions for them.
//
// The way of a bucket:
//   1. A stream asks for the place of a gradient, and waits for the buckets that had the place
//      (RingPlaces::after()), those of the last step and then those of this one. It waits once per bucket and
//      micro-step. If a bucket that has the place still misses gradients, the stream gets memory aside, and the
//      gradient goes to its place when that bucket has left. (Of tied weights the one at the end of the model is
//      complete last: all layers between come before it.)
//   2. On the wire, gaps between the bucket's parameters are set to zero, for they hold values of other
//      buckets.
//   3. A hook reduces the bucket, and this rank's part of the mean is copied or added to the ShardStore.
//   4. The event after which this is done frees the place.
// Price: one more pass over this rank's part of each bucket, and a fill of the gaps; memory and a copy for gradients that
// come before their turn.

#include "gradient/bucket_ring/ring_gradients.hpp"

#include <algorithm>

#include "core/memory/elementwise.hpp"
#include "core/memory/host_memory.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {

Gaps gaps_of(const Bucket& bucket, const ParamLayout& layout) {
  Gaps gaps;
  std::int64_t covered = bucket.begin;
  const auto cover = [&](std::int64_t begin, std::int64_t end) {
    if (begin > covered) gaps.emplace_back(covered - bucket.begin, begin - bucket.begin);
    covered = std::max(covered, end);
  };
  for (int i = 0; i < layout.parameters(); ++i) {
    const std::int64_t begin = layout.offset(ParamId{i});
    const std::int64_t end = begin + layout.count(ParamId{i});
    if (end > bucket.begin && begin < bucket.end) cover(begin, std::min(end, bucket.end));
  }
  cover(bucket.end, bucket.end);
  return gaps;
}

ShardStore::ShardStore(const BucketPlan& plan, Device device, int ranks, bool on_host) {
  std::int64_t size = 0;
  for (const Bucket& bucket : plan.buckets()) {
    begins_.push_back(size);
    counts_.push_back(bucket.count() / ranks);
    size += counts_.back();
  }
  const DataType dtype = plan.layout().dtype();
  memory_ = on_host ? pinned(device, dtype, size) : Buffer::on(device, dtype, size);
  parts_ = on_device(memory_, device);
}

void ShardStore::store(std::size_t bucket, ConstView mine, bool adds, const Stream& lane) {
  if (adds) {
    add(part(bucket), mine, lane);
  } else {
    copy(part(bucket), mine, lane);
  }
}

RingGradients::RingGradients(const BucketPlan& plan, std::int64_t capacity, Device device, int ranks,
                             bool means_on_host)
    : ring_(plan, capacity),
      store_(plan, device, ranks, means_on_host),
      earlier_(plan.buckets().size()),
      admitted_(plan.buckets().size()),
      asked_(static_cast<std::size_t>(plan.layout().parameters())),
      device_(device),
      dtype_(plan.layout().dtype()) {
  for (const Bucket& bucket : plan.buckets()) gaps_.push_back(gaps_of(bucket, plan.layout()));
}

void RingGradients::begin_micro_step(std::vector<Event>& reduced) {
  earlier_.swap(reduced);
  std::ranges::fill(reduced, Event());
  for (auto& streams : admitted_) streams.clear();
  asked_.assign(asked_.size(), false);
  for (auto& [id, aside] : asides_) aside.is_used = false;
  held_.clear();
}

View RingGradients::aside(ParamId id, std::int64_t count) {
  Aside& one = asides_[id];
  if (one.memory.count() == 0) one.memory = Buffer::on(device_, dtype_, count);
  one.is_used = true;
  return one.memory.view();
}

bool RingGradients::is_aside(ParamId id) const {
  const auto found = asides_.find(id);
  return found != asides_.end() && found->second.is_used;
}

void RingGradients::hold(ParamId id, const Stream& stream) {
  held_.emplace_back(id, stream);
}

bool RingGradients::holds(ParamId id) const {
  return std::ranges::any_of(held_, [id](const auto& one) { return one.first == id; });
}

std::int64_t RingGradients::bytes_aside() const {
  std::int64_t bytes = 0;
  for (const auto& [id, aside] : asides_) bytes += static_cast<std::int64_t>(aside.memory.size_bytes());
  return bytes;
}

bool RingGradients::admits(std::size_t bucket, const Stream& stream) {
  auto& streams = admitted_[bucket];
  if (std::ranges::find(streams, stream) != streams.end()) return true;
  streams.push_back(stream);
  return false;
}

void RingGradients::clear_gaps(std::size_t bucket, View gradient, const Stream& lane) const {
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
