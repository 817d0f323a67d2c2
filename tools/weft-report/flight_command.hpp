#pragma once

#include <string>
#include <vector>

namespace weft::report {

/// weft-report flight. @param arguments after that word. @return the program's exit status
int flight_command(const std::vector<std::string>& arguments);

}  // namespace weft::report
