#pragma once

#include <string>
#include <vector>

namespace weft::report {

/// weft-report nccl. @param arguments after that word. @return the program's exit status
int nccl_command(const std::vector<std::string>& arguments);

}  // namespace weft::report
