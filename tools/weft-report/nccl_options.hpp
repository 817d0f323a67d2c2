#pragma once

#include <string>
#include <vector>

#include "output_files.hpp"

namespace weft::report {

struct NcclOptions {
  std::vector<std::string> paths;
  bool rules = false;  ///< print them, and read nothing
  OutputFiles files{};
  bool help = false;
};

/// @param arguments after the word nccl. @throws Error (usage) naming the argument, its value and what is allowed
NcclOptions parse_nccl_options(const std::vector<std::string>& arguments);
std::string nccl_help();

}  // namespace weft::report
