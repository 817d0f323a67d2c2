#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::report {

struct TuneOptions {
  std::vector<std::string> command;  ///< behind --
  double minutes = 10;
  std::optional<double> deadline;  ///< of a run, in seconds
  std::vector<std::string> logs;
  std::optional<std::string> output;  ///< a folder
  std::optional<std::string> tuner;
  std::optional<int> pairs;  ///< of a comparison; else what the time allows
  std::uint64_t seed = 1;
  std::optional<std::string> json;
  bool quiet = false;
  bool help = false;
};

/// @param arguments after the word tune. @throws Error (usage) naming the argument, its value and what is allowed
TuneOptions parse_tune_options(const std::vector<std::string>& arguments);
std::string tune_help();

}  // namespace weft::report
