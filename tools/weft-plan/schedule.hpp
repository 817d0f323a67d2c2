#pragma once
// weft-plan schedule: what a pipeline's schedule takes, beside what any must.

#include <string>
#include <vector>

namespace weft::plan {

/// @return 0; 1 for a schedule given that cannot be executed as it is meant
int run_schedule(const std::vector<std::string>& arguments);

}  // namespace weft::plan
