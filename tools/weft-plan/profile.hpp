#pragma once
// What a trace says of a backward pass.

#include <string>

#include "weft/gradient/bucket_planner.hpp"

namespace weft::plan {

struct Profile {
  ParamLayout layout;
  BackwardProfile backward;
};

/// @throws Error (usage) naming the file and what is wrong with it
Profile read_profile(const std::string& path);

}  // namespace weft::plan
