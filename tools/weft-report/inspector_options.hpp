#pragma once

#include <string>
#include <vector>

#include "output_files.hpp"

namespace weft::report {

struct InspectorOptions {
  std::string folder{};
  std::vector<std::string> beside{};  ///< logs and topologies, which state links
  std::string gpu{};
  OutputFiles files{};
  bool help = false;
};

/// @param arguments after the word inspector. @throws Error (usage) naming the argument, its value and what is allowed
InspectorOptions parse_inspector_options(const std::vector<std::string>& arguments);
std::string inspector_help();

}  // namespace weft::report
