#pragma once
// The results of an earlier run. They are read before this run trains, so that a wrong file costs no time.

#include <string>
#include <vector>

#include "measure.hpp"
#include "report.hpp"
#include "weft-scaling/pages/earlier_run.hpp"

namespace weft::scaling {

/// @throws Error (usage) naming the file and the problem
report::EarlierRun read_earlier(const std::string& file);

/// Whether the two runs may be compared. @throws Error (usage) naming both values where they differ: model,
/// number of ranks, device; or when this run has too few steps for a verdict
void check_comparable(const report::EarlierRun& earlier, const Options& options, const Communicator& comm);

report::Comparison compare(const report::EarlierRun& earlier, const Setting& setting,
                           const std::vector<Run>& runs);

}  // namespace weft::scaling
