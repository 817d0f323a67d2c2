#pragma once

#include <string>
#include <vector>

#include "output_files.hpp"
#include "weft-report/env/nccl_version.hpp"

namespace weft::report {

struct EnvOptions {
  std::vector<std::string> files;  ///< none: the environment of this process
  NcclVersion version = newest_known;
  OutputFiles outputs{};
  bool help = false;
};

/// @param arguments after the word env. @throws Error (usage) naming the argument, its value and what is allowed
EnvOptions parse_env_options(const std::vector<std::string>& arguments);
std::string env_help();

}  // namespace weft::report
