#include "gradient/ready_tracker.hpp"

#include <algorithm>

#include "weft/core/error.hpp"

namespace weft::detail {

ReadyTracker::ReadyTracker(const ParamLayout& layout)
    : buckets_of_(static_cast<std::size_t>(layout.parameters())), marked_in_(buckets_of_.size()) {}

void ReadyTracker::adopt(const BucketPlan& plan) {
  const std::size_t buckets = plan.buckets().size();
  parameters_in_.assign(buckets, 0);
  unmarked_.assign(buckets, 0);
  producers_.assign(buckets, {});
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    parameters_in_[bucket] = plan.buckets()[bucket].params.size();
    for (const ParamId id : plan.buckets()[bucket].params) buckets_of_[index(id)].last = bucket;
  }
  for (std::size_t bucket = buckets; bucket-- > 0;) {
    for (const ParamId id : plan.buckets()[bucket].params) buckets_of_[index(id)].first = bucket;
  }
}

void ReadyTracker::begin_step() {
  step_.fetch_add(1, std::memory_order_relaxed);
  marked_ = 0;
  unmarked_ = parameters_in_;
  for (auto& streams : producers_) streams.clear();
}

void ReadyTracker::mark(ParamId id, const Stream& stream) {
  marked_in_[index(id)].store(step(), std::memory_order_relaxed);
  ++marked_;
  const auto [first, last] = buckets_of_[index(id)];
  for (std::size_t bucket = first; bucket <= last; ++bucket) {
    if (std::ranges::find(producers_[bucket], stream) == producers_[bucket].end())
      producers_[bucket].push_back(stream);
    --unmarked_[bucket];
  }
}

std::vector<ParamId> ReadyTracker::missing() const {
  std::vector<ParamId> result;
  const std::uint64_t now = step();
  for (std::size_t i = 0; i < marked_in_.size(); ++i) {
    if (marked_in_[i].load(std::memory_order_relaxed) != now)
      result.push_back(ParamId{static_cast<std::int32_t>(i)});
  }
  return result;
}

std::string ReadyTracker::list(const std::vector<ParamId>& some, const ParamLayout& layout) {
  constexpr std::size_t most = 5;
  std::string names = text(some.size(), " of ", layout.parameters(), " parameters were never marked ready: ");
  for (std::size_t i = 0; i < std::min(some.size(), most); ++i)
    names += text(i == 0 ? "" : ", ", layout.name(some[i]));
  return some.size() > most ? names + ", ..." : names;
}

}  // namespace weft::detail
