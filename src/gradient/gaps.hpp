#pragma once
// What lies between parameters.

#include <cstdint>
#include <utility>
#include <vector>

#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

/// Elements [begin, end), counted from the bucket's first.
using Gaps = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// What of a bucket is no parameter's, rising.
Gaps gaps_of(const Bucket& bucket, const ParamLayout& layout);

}  // namespace weft::detail
