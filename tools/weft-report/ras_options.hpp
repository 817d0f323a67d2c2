#pragma once

#include <string>
#include <vector>

#include "output_files.hpp"
#include "ras_client.hpp"

namespace weft::report {

struct RasOptions {
  std::string file{};  ///< "-": standard input; empty: a process is asked
  RasAddress address{};
  AskOptions asked{};
  double every = 0;  ///< seconds between two answers; 0: one
  OutputFiles outputs{};
  bool help = false;
};

/// @param arguments after the word ras. @throws Error (usage) naming the argument, its value and what is allowed
RasOptions parse_ras_options(const std::vector<std::string>& arguments);
std::string ras_help();

/// A number of seconds that an option gives. @throws Error (usage)
double seconds_from(const std::string& option, const std::string& value, double least, double most);

}  // namespace weft::report
