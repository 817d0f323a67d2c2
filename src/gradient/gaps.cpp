#include "gradient/gaps.hpp"

#include <algorithm>

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

}  // namespace weft::detail
