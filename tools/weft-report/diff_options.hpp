#pragma once

#include <string>
#include <vector>

#include "output_files.hpp"

namespace weft::report {

struct DiffOptions {
  std::string before{};
  std::string after{};
  OutputFiles files{};
  bool help = false;
};

/// @param arguments after the word diff. @throws Error (usage) naming the argument, its value and what is allowed
DiffOptions parse_diff_options(const std::vector<std::string>& arguments);
std::string diff_help();

}  // namespace weft::report
