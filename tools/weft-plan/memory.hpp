#pragma once

#include <string>
#include <vector>

namespace weft::plan {

/// `weft-plan memory`. @param arguments after that word
int run_memory(const std::vector<std::string>& arguments);

}  // namespace weft::plan
