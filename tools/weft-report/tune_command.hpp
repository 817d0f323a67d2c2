#pragma once

#include <string>
#include <vector>

namespace weft::report {

/// weft-report tune. @param arguments after that word. @return the program's exit status
int tune_command(const std::vector<std::string>& arguments);

}  // namespace weft::report
