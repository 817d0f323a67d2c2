#pragma once
// Prints the figures of weft-scaling, as a table and as JSON.

#include <ostream>
#include <string>
#include <vector>

#include "measure.hpp"
#include "sweep.hpp"
#include "transport.hpp"

namespace weft::scaling {

/// The setting of a run. Figures are comparable only if it is the same.
struct Setting {
  std::string model;
  std::string backend;  ///< "host (shared memory)"
};

void print_table(std::ostream& out, const std::vector<Run>& runs);

/// Where the steps of a strategy went, in a line or two; empty if there was no account.
std::string parts_text(const Run& run);

/// The choice of `auto` with its reason, or the executed schedule; else empty.
std::string choice_text(const Run& run);

/// The table of a sweep: its heading, and a row as soon as it is measured.
std::string sweep_heading();
std::string sweep_row(const SweepRun& one);

/// {"model", "backend", "runs": [{"strategy", "ranks", "step_seconds": {"median", "p99", "samples": [...]},
/// ...}], "transports": [{"from", "to", "via", "gdr", "nvlink", "channels"}]}
std::string to_json(const Setting& setting, const std::vector<Run>& runs,
                    const std::vector<Connection>& connections);
/// {"model", "backend", "sweep": [{"scaling": "weak|strong", "efficiency", and the keys of a run}],
/// "transports": [...]}
std::string to_json(const Setting& setting, const std::vector<SweepRun>& runs,
                    const std::vector<Connection>& connections);

}  // namespace weft::scaling
