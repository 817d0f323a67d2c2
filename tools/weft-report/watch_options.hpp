#pragma once

#include <optional>
#include <string>
#include <vector>

#include "output_files.hpp"
#include "rank_client.hpp"
#include "ras_client.hpp"

namespace weft::report {

struct WatchOptions {
  bool asks_ras = true;
  RasAddress address{};
  std::vector<RankAddress> ranks{};  ///< of a job of weft
  AskOptions asked{};
  double every = 10;     ///< seconds between two looks
  double patience = 30;  ///< seconds that a rank may stand still while others wait
  double most = 0;       ///< seconds until the end; 0: until the job ends
  bool until_alarm = false;
  bool until_closed = false;  ///< ends when nobody holds the other end of standard input
  std::vector<std::string> logs{};
  std::string records{};    ///< a folder; empty: none
  std::string inspector{};  ///< a folder; empty: none
  std::string metrics{};    ///< a file; empty: none
  std::optional<int> metrics_port{};
  std::string metrics_bind = "127.0.0.1";
  OutputFiles outputs{};
  bool help = false;
};

/// @param arguments after the word watch. @throws Error (usage) naming the argument, its value and what is allowed
WatchOptions parse_watch_options(const std::vector<std::string>& arguments);
std::string watch_help();

}  // namespace weft::report
