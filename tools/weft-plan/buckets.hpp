#pragma once

#include <string>
#include <vector>

namespace weft::plan {

/// `weft-plan buckets`, and `weft-plan --help`. @param arguments all of the command line
int run_buckets(const std::vector<std::string>& arguments);

}  // namespace weft::plan
