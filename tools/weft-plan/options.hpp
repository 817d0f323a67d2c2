#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft::plan {

struct Options {
  std::string file;
  std::optional<double> latency_seconds;   ///< instead of what was measured
  std::optional<double> bytes_per_second;  ///< the same
  std::optional<std::size_t> bucket_bytes;
  std::optional<std::string> json;
  bool help = false;
};

/// @throws Error (usage) naming the argument, its value and what is allowed
Options parse(const std::vector<std::string>& arguments);
std::string help();

}  // namespace weft::plan
