#pragma once
// Turns the results into the values of the page (report/scaling/scaling_page.hpp).

#include <optional>
#include <string>
#include <vector>

#include "measure.hpp"
#include "report.hpp"
#include "report/scaling/scaling_page.hpp"
#include "sweep.hpp"
#include "transport.hpp"

namespace weft::scaling {

/// Checks that the page can be written. Rank 0 alone writes it, because the folder need not exist on every
/// node; its result goes to all ranks, so that all refuse together. Collective. @throws Error (usage) naming
/// the file and why
void check_writable(const std::string& file, const Communicator& comm);

/// @param command the command line
report::ScalingPage page_of(const Options& options, const std::vector<std::string>& command,
                            const Communicator& comm, const std::vector<Run>& runs,
                            const std::vector<SweepRun>& sweep, const std::vector<Connection>& connections,
                            std::optional<report::Comparison> comparison);

}  // namespace weft::scaling
