#pragma once
// The figures of weft-scaling, for people and for machines.

#include <ostream>
#include <string>
#include <vector>

#include "measure.hpp"
#include "sweep.hpp"
#include "transport.hpp"

namespace weft::scaling {

/// What figures of different runs must have in common, to be compared.
struct Setting {
  std::string model;
  std::string backend;  ///< "host (shared memory)"
};

void print_table(std::ostream& out, const std::vector<Run>& runs);

/// Where a strategy's steps went, a line or two; empty where nothing was accounted for.
std::string parts_text(const Run& run);

/// What was chosen, and why, or executed; empty where nothing is.
std::string choice_text(const Run& run);

/// Of a sweep: a row of the table as soon as it is measured, and its heading.
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
