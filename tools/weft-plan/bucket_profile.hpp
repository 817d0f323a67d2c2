#pragma once
// What a trace of weft-scaling tells of the backward pass: the parameters, when each gradient was ready, and the link.

#include <string>
#include <string_view>

#include "weft/gradient/bucket_planner.hpp"

namespace weft::plan {

struct BucketProfile {
  ParamLayout layout;
  BackwardProfile backward;
};

/// @throws Error (usage) naming the place in the file and the problem
BucketProfile parse_bucket_profile(std::string_view content, const std::string& file);

}  // namespace weft::plan
