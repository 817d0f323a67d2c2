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

/// What there is of a run: all of it, or what a signal leaves.
struct Results {
  Setting setting{};
  std::vector<Run> runs{};
  std::vector<SweepRun> swept{};  ///< of --sweep, which has no runs
  std::vector<Connection> connections{};
  std::string how_far{};  ///< of what a signal leaves: "15 of 40 steps"

  bool is_partial() const { return !how_far.empty(); }
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
/// ...}], "transports": [{"from", "to", "via", "gdr", "nvlink", "channels"}]}; of a sweep, in place of runs,
/// "sweep": [{"scaling": "weak|strong", "efficiency", and the keys of a run}]; of what a signal leaves also "partial": true
std::string to_json(const Results& results);

}  // namespace weft::scaling
