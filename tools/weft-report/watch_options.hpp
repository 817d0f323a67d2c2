#pragma once

#include <string>
#include <vector>

#include "output_files.hpp"
#include "ras_client.hpp"

namespace weft::report {

struct WatchOptions {
  RasAddress address{};
  AskOptions asked{};
  double every = 10;     ///< seconds between two looks
  double patience = 30;  ///< seconds that a rank may stand still while others wait
  double most = 0;       ///< seconds until the end; 0: until the job ends
  bool until_alarm = false;
  std::vector<std::string> logs{};
  std::string records{};  ///< a folder; empty: none
  std::string metrics{};  ///< a file; empty: none
  OutputFiles outputs{};
  bool help = false;
};

/// @param arguments after the word watch. @throws Error (usage) naming the argument, its value and what is allowed
WatchOptions parse_watch_options(const std::vector<std::string>& arguments);
std::string watch_help();

}  // namespace weft::report
