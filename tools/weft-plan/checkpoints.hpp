#pragma once

#include <string>
#include <vector>

namespace weft::plan {

/// `weft-plan checkpoint`. @param arguments after that word
int run_checkpoint(const std::vector<std::string>& arguments);

}  // namespace weft::plan
