#pragma once
// The results of an earlier run of weft-scaling, from the file of its --json. Only what a comparison needs is read, and checked.

#include <string>
#include <string_view>
#include <vector>

#include "weft-scaling/pages/comparison.hpp"

namespace weft::report {

struct EarlierRun {
  std::string file;
  std::string model;
  std::string backend;  ///< "host (shared memory)"
  int ranks = 1;
  std::vector<Samples> strategies;
};

/// @throws Error (usage) naming the place and the problem: "--compare run.json: runs[1].ranks is 4; the runs before have 2"
EarlierRun parse_earlier_run(std::string_view content, const std::string& file);

}  // namespace weft::report
