#pragma once
// From what was measured to what the page shows.

#include <optional>
#include <string>
#include <vector>

#include "measure.hpp"
#include "report.hpp"
#include "report/page/scaling_page.hpp"
#include "sweep.hpp"
#include "transport.hpp"

namespace weft::scaling {

/// Whether a page can be written there. Rank 0 alone will write it, and all are told: the folder need not be
/// on every node, and wrong input is refused by all ranks alike. Collective.
/// @throws Error (usage) naming the file and why
void check_writable(const std::string& file, const Communicator& comm);

/// @param command as it was given
report::ScalingPage page_of(const Options& options, const std::vector<std::string>& command,
                            const Communicator& comm, const std::vector<Run>& runs,
                            const std::vector<SweepRun>& sweep, const std::vector<Connection>& connections,
                            std::optional<report::Comparison> comparison);

}  // namespace weft::scaling
