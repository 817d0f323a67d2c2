// Each parameter holds the number of the last step that marked it, so that a new step resets nothing per
// parameter. Each bucket counts the parameters that it still waits for; mark() lowers the count of every
// bucket that has elements of the parameter. The lists of buckets by parameter are one array with offsets
// (adopt()).

#include "gradient/reducer/ready_tracker.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

ReadyTracker::ReadyTracker(const ParamLayout& layout)
    : marked_in_(static_cast<std::size_t>(layout.parameters())) {}

void ReadyTracker::adopt(const BucketPlan& plan) {
  const std::size_t buckets = plan.buckets().size();
  parameters_in_.assign(buckets, 0);
  unmarked_.assign(buckets, 0);
  producers_.assign(buckets, {});
  first_bucket_.assign(marked_in_.size() + 1, 0);
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    parameters_in_[bucket] = plan.buckets()[bucket].params.size();
    for (const ParamId id : plan.buckets()[bucket].params) ++first_bucket_[index(id) + 1];
  }
  std::partial_sum(first_bucket_.begin(), first_bucket_.end(), first_bucket_.begin());
  buckets_.resize(first_bucket_.back());
  std::vector<std::size_t> next = first_bucket_;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    for (const ParamId id : plan.buckets()[bucket].params) buckets_[next[index(id)]++] = bucket;
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
  for (std::size_t i = first_bucket_[index(id)]; i < first_bucket_[index(id) + 1]; ++i) {
    const std::size_t bucket = buckets_[i];
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

std::string ReadyTracker::names(const std::vector<ParamId>& some, const ParamLayout& layout) {
  constexpr std::size_t most = 5;
  std::string names;
  for (std::size_t i = 0; i < std::min(some.size(), most); ++i)
    names += text(i == 0 ? "" : ", ", layout.name(some[i]));
  return some.size() > most ? names + ", ..." : names;
}

std::string ReadyTracker::list(const std::vector<ParamId>& some, const ParamLayout& layout) {
  return text(some.size(), " of ", layout.parameters(),
              " parameters were never marked ready: ", names(some, layout));
}

std::string ReadyNote::json() const {
  constexpr std::size_t most = 8;
  const std::vector<ParamId> missing = ready_->missing();
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), most); ++i)
    names += text(i == 0 ? "" : ",", json_string(layout_.name(missing[i])));
  return text(R"({"track":"gradients","step":)", ready_->step(), ",\"waits_for\":[", names,
              "],\"waits_for_count\":", missing.size(), "}");
}

}  // namespace weft::detail
