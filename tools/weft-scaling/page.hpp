#pragma once
// Turns the results into the values of the page (report/scaling/scaling_page.hpp).

#include <optional>
#include <string>
#include <vector>

#include "measure.hpp"
#include "report.hpp"
#include "sweep.hpp"
#include "transport.hpp"
#include "weft-scaling/pages/scaling_page.hpp"

namespace weft::scaling {

/// @param command the command line
report::ScalingPage page_of(const Options& options, const std::vector<std::string>& command,
                            const Communicator& comm, const Results& results,
                            std::optional<report::Comparison> comparison);

}  // namespace weft::scaling
