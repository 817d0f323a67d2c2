#pragma once

#include <string>
#include <vector>

#include "output_files.hpp"

namespace weft::report {

struct FlightOptions {
  std::string folder;
  OutputFiles files{};
  bool help = false;
};

/// @param arguments after the word flight. @throws Error (usage) naming the argument, its value and what is
/// allowed
FlightOptions parse_flight_options(const std::vector<std::string>& arguments);
std::string flight_help();
/// The last lines of every help text.
inline constexpr const char* exit_statuses =
    "Exit status: 0 nothing wrong, 1 warnings only, 2 a critical finding, 42 wrong usage or input, 70 a "
    "fault\n"
    "of the system.\n";
/// The help text, which lists the kinds of report.
std::string help();

}  // namespace weft::report
