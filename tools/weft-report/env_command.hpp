#pragma once

#include <string>
#include <vector>

namespace weft::report {

/// weft-report env. @param arguments after that word. @return the program's exit status
int env_command(const std::vector<std::string>& arguments);

}  // namespace weft::report
