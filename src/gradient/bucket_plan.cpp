#include "weft/gradient/bucket_plan.hpp"

#include <iomanip>

#include "gradient/fnv.hpp"

namespace weft {

BucketPlan plan_buckets(const ParamLayout& layout, std::size_t bucket_bytes) {
  if (bucket_bytes == 0) throw Error(ErrorKind::usage, "bucket_bytes is 0", "give at least 1");
  std::vector<Bucket> buckets;
  std::int64_t end = layout.size();
  Bucket bucket{end, end, {}};
  for (int i = layout.parameters() - 1; i >= 0; --i) {
    const ParamId id{i};
    const auto bytes = static_cast<std::size_t>(bucket.end - layout.offset(id)) * size_of(layout.dtype());
    if (!bucket.params.empty() && bytes > bucket_bytes) {
      end = bucket.begin;
      buckets.push_back(std::move(bucket));
      bucket = {end, end, {}};
    }
    bucket.begin = layout.offset(id);
    bucket.params.push_back(id);
  }
  buckets.push_back(std::move(bucket));
  return {layout, std::move(buckets)};
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
