#pragma once
// What a watch knows, in Prometheus' text format, for node_exporter's textfile collector.

#include <string>

#include "weft-report/watch/watch.hpp"

namespace weft::report {

/// weft_watch_up, weft_watch_findings and, where the last answer counts launches, weft_operation_number, which means what docs/metrics.md says.
std::string figures_of(const Watch& watch);

}  // namespace weft::report
