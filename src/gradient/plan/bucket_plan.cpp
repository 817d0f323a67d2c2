#include "weft/gradient/bucket_plan.hpp"

#include <algorithm>
#include <iomanip>
#include <utility>

#include "core/base/fnv.hpp"
#include "core/base/round_up.hpp"

namespace weft {
namespace {

/// Buckets from the last parameter to the first. A bucket is closed when it holds `bucket_bytes`, where `closes`
/// says so of the parameter that it has last.
template <class Closes>
BucketPlan fill_buckets(const ParamLayout& layout, std::size_t bucket_bytes, Closes closes) {
  if (bucket_bytes == 0) throw Error(ErrorKind::usage, "bucket_bytes is 0", "give at least 1");
  std::vector<Bucket> buckets;
  Bucket bucket{layout.size(), layout.size(), {}};
  for (int i = layout.parameters() - 1; i >= 0; --i) {
    const ParamId id{i};
    bucket.begin = layout.offset(id);
    bucket.params.push_back(id);
    const bool is_full = static_cast<std::size_t>(bucket.count()) * size_of(layout.dtype()) >= bucket_bytes;
    if (!is_full && i > 0 && !closes(id)) continue;
    const std::int64_t begin = bucket.begin;
    buckets.push_back(std::move(bucket));
    bucket = {begin, begin, {}};
  }
  return {layout, std::move(buckets)};
}

}  // namespace

BucketPlan plan_buckets(const ParamLayout& layout, std::size_t bucket_bytes, std::size_t alone) {
  const auto is_alone = [&](int i) {
    return static_cast<std::size_t>(layout.count(ParamId{i})) * size_of(layout.dtype()) >= alone;
  };
  return fill_buckets(layout, bucket_bytes, [&](ParamId id) {
    const auto i = static_cast<int>(id);
    return is_alone(i) || (i > 0 && is_alone(i - 1));
  });
}

BucketPlan plan_whole_buckets(const ParamLayout& layout, std::size_t bucket_bytes, std::int64_t unit,
                              const std::vector<ParamId>& closes) {
  layout.with_starts(closes, unit);  // throws for a wrong unit or parameter
  std::vector<Bucket> buckets;
  std::vector<ParamId> starts;
  const BucketPlan filled_plan = fill_buckets(
      layout, bucket_bytes, [&](ParamId id) { return std::ranges::find(closes, id) != closes.end(); });
  for (const Bucket& filled : filled_plan.buckets()) {
    buckets.push_back({0, 0, filled.params});
    starts.push_back(filled.params.back());
  }
  const ParamLayout padded = layout.with_starts(starts, unit);
  std::int64_t end = padded.size();
  for (Bucket& bucket : buckets) {
    bucket.begin = padded.offset(bucket.params.back());
    bucket.end = std::exchange(end, bucket.begin);
  }
  return {padded, std::move(buckets)};
}

BucketPlan aligned(const BucketPlan& plan, std::int64_t unit, Tail tail) {
  if (unit < 1)
    throw Error(ErrorKind::usage, text("buckets aligned to ", unit, " elements"), "give at least 1");
  const ParamLayout& layout = plan.layout();
  const auto up = [&](std::int64_t element) {
    const std::int64_t end = detail::round_up(element, unit);
    return tail == Tail::partial ? std::min(end, layout.size()) : end;
  };
  std::vector<Bucket> buckets;
  for (const Bucket& bucket : plan.buckets()) {
    Bucket moved{up(bucket.begin), up(bucket.end), {}};
    if (moved.begin == moved.end) continue;
    const auto after = std::ranges::lower_bound(layout.offsets(), moved.end);
    for (auto i = static_cast<int>(after - layout.offsets().begin()) - 1; i >= 0; --i) {
      const ParamId id{i};
      if (layout.offset(id) + layout.count(id) <= moved.begin) break;
      moved.params.push_back(id);
    }
    buckets.push_back(std::move(moved));
  }
  return {layout, std::move(buckets)};
}

std::int64_t BucketPlan::end() const {
  std::int64_t end = layout_.size();
  for (const Bucket& bucket : buckets_) end = std::max(end, bucket.end);
  return end;
}

std::uint64_t BucketPlan::hash() const {
  detail::Fnv hash;
  hash.add(static_cast<std::int64_t>(layout_.hash()));
  for (const Bucket& bucket : buckets_) {
    hash.add(bucket.begin).add(bucket.end);
    for (const ParamId id : bucket.params) hash.add(static_cast<std::int64_t>(id));
  }
  return hash.value();
}

std::ostream& operator<<(std::ostream& out, const BucketPlan& plan) {
  int number = 0;
  for (const Bucket& bucket : plan.buckets_) {
    const auto bytes = static_cast<std::size_t>(bucket.count()) * size_of(plan.layout_.dtype());
    out << "bucket " << number++ << ": [" << bucket.begin << ", " << bucket.end << ") " << bytes << " bytes, "
        << bucket.params.size() << " parameters: " << plan.layout_.name(bucket.params.front());
    if (bucket.params.size() > 1) out << " ... " << plan.layout_.name(bucket.params.back());
    out << '\n';
  }
  return out;
}

}  // namespace weft
