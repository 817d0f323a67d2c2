#pragma once

#include <string>
#include <vector>

namespace weft::report {

/// weft-report inspector. @param arguments after that word @return the exit status
int inspector_command(const std::vector<std::string>& arguments);

}  // namespace weft::report
