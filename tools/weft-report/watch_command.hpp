#pragma once

#include <string>
#include <vector>

namespace weft::report {

/// weft-report watch. @param arguments after that word. @return the program's exit status
int watch_command(const std::vector<std::string>& arguments);

}  // namespace weft::report
