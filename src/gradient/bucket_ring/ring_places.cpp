// Places of buckets, chosen greedily in plan order, and GradientSpace, which finds an element through them.
//
// For each bucket, every begin is tried at which the bucket touches a border between earlier places. Of these
// the one is taken whose newest former owner left longest ago; of equals the one that overlaps that owner
// least. Cost: O(B^2) in the number of buckets for each bucket, once per plan.

#include "gradient/bucket_ring/ring_places.hpp"

#include <algorithm>
#include <compare>
#include <set>

#include "weft/core/buffer.hpp"

namespace weft::detail {
namespace {

/// Which bucket had which elements of the memory last.
class Owners {
 public:
  static constexpr std::int64_t none = -1;
  struct Range {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t owner;
  };

  explicit Owners(std::int64_t size) : ranges_{{0, size, none}} {}

  const std::vector<Range>& ranges() const { return ranges_; }
  void take(std::int64_t begin, std::int64_t end, std::int64_t owner) {
    std::vector<Range> left;
    for (const Range& range : ranges_) {
      if (range.begin < begin) left.push_back({range.begin, std::min(range.end, begin), range.owner});
      if (range.begin <= begin && begin < range.end) left.push_back({begin, end, owner});
      if (range.end > end) left.push_back({std::max(range.begin, end), range.end, range.owner});
    }
    ranges_ = std::move(left);
  }
  template <class Visit>
  void visit(std::int64_t begin, std::int64_t end, Visit visit) const {
    auto range = std::ranges::upper_bound(ranges_, begin, {}, &Range::end);
    for (; range != ranges_.end() && range->begin < end; ++range)
      visit(range->owner, std::min(range->end, end) - std::max(range->begin, begin));
  }

 private:
  std::vector<Range> ranges_;
};

/// What a place costs. Costs compare by `newest` first: to wait for a bucket that leaves late is worse than
/// to wait for any number of earlier ones.
struct Cost {
  std::int64_t newest = Owners::none;  // the last to leave of the buckets there
  std::int64_t elements = 0;           // that this bucket has there
  auto operator<=>(const Cost&) const = default;
};

Cost cost_of(const Owners& owners, std::int64_t begin, std::int64_t end) {
  Cost cost;
  owners.visit(begin, end, [&](std::int64_t owner, std::int64_t elements) {
    if (owner > cost.newest) cost = {owner, 0};
    if (owner == cost.newest && owner != Owners::none) cost.elements += elements;
  });
  return cost;
}

/// @param prefers_high which of equal places to take; buckets alternate, so that neighbours take both ends
std::int64_t best_begin(const Owners& owners, std::int64_t size, std::int64_t count, bool prefers_high) {
  std::set<std::int64_t> candidates;
  for (const auto& range : owners.ranges()) {
    for (const std::int64_t bound : {range.begin, range.end}) {
      if (bound + count <= size) candidates.insert(bound);
      if (bound >= count) candidates.insert(bound - count);
    }
  }
  std::int64_t best = 0;
  Cost least = cost_of(owners, 0, count);
  for (const std::int64_t begin : candidates) {
    const Cost cost = cost_of(owners, begin, begin + count);
    if (cost > least || (cost == least && !prefers_high)) continue;
    best = begin;
    least = cost;
  }
  return best;
}

/// `capacity`, limited to between what the largest bucket takes and what all buckets take.
std::int64_t fitted(const BucketPlan& plan, std::int64_t capacity) {
  std::int64_t all = 0;
  std::int64_t largest = 0;
  for (const Bucket& bucket : plan.buckets()) {
    all += bucket.count();
    largest = std::max(largest, bucket.count());
  }
  return std::max(std::min(capacity, all), largest);
}

}  // namespace

RingPlaces::RingPlaces(const BucketPlan& plan, std::int64_t capacity) {
  const auto& buckets = plan.buckets();
  size_ = fitted(plan, capacity);
  Owners owners(size_);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    begins_.push_back(best_begin(owners, size_, buckets[i].count(), i % 2 == 1));
    owners.take(begins_[i], begins_[i] + buckets[i].count(), static_cast<std::int64_t>(i));
  }
  // A second step over the same places tells which bucket takes over from which. Owners below `last` are
  // buckets of the first step.
  const auto last = std::ssize(buckets);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    std::set<std::size_t> now;
    std::set<std::size_t> before;
    const std::int64_t end = begins_[i] + buckets[i].count();
    owners.visit(begins_[i], end, [&](std::int64_t owner, std::int64_t) {
      if (owner != Owners::none) (owner < last ? before : now).insert(static_cast<std::size_t>(owner % last));
    });
    after_.emplace_back(now.begin(), now.end());
    after_last_step_.emplace_back(before.begin(), before.end());
    owners.take(begins_[i], end, last + static_cast<std::int64_t>(i));
  }
}

std::vector<GradientSpace::Place> RingPlaces::places(const BucketPlan& plan) const {
  std::vector<GradientSpace::Place> places;
  for (std::size_t i = 0; i < begins_.size(); ++i)
    places.push_back({plan.buckets()[i].begin, plan.buckets()[i].end, begins_[i]});
  std::ranges::sort(places, {}, &GradientSpace::Place::begin);
  return places;
}

std::int64_t ring_elements(const BucketPlan& plan, std::size_t bytes) {
  const std::size_t lines = bytes / Buffer::alignment;
  const std::size_t element = size_of(plan.layout().dtype());
  return fitted(plan, static_cast<std::int64_t>(lines * Buffer::alignment / element));
}

}  // namespace weft::detail

namespace weft {

View GradientSpace::slice(std::int64_t begin, std::int64_t count) const {
  if (!places_) return memory_.slice(begin, count);
  const auto after = std::ranges::upper_bound(*places_, begin, {}, &Place::begin);
  if (after == places_->begin() || count < 0 || begin + count > std::prev(after)->end)
    throw Error(
        ErrorKind::usage,
        text("gradients [", begin, ", ", begin + count, ") of the flat space, which no one bucket has"),
        "in a bucket ring, ask for what lies in one bucket");
  const Place& place = *std::prev(after);
  return memory_.slice(place.at + begin - place.begin, count);
}

GradientSpace GradientSpace::over(View memory) const {
  if (memory.count() != memory_.count())
    throw Error(ErrorKind::usage, text("places in ", memory_.count(), " elements over ", memory.count()));
  GradientSpace other = *this;
  other.memory_ = memory;
  return other;
}

}  // namespace weft
