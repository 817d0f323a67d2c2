#pragma once
// What weft-report tune has found, as text and as JSON.

#include <iosfwd>
#include <string>

#include "common/outputs.hpp"
#include "weft-report/tuning/search.hpp"
#include "weft-report/tuning/settings_text.hpp"

namespace weft::report {

struct TuneState {
  tuning::Command command{};
  tuning::Facts facts{};
  tuning::Space space{};
  tuning::Places places{};
  tuning::Tuning tuning{};
  int pairs = 0;       ///< of a comparison
  double seconds = 0;  ///< of all runs
};

/// What is tried, before it is.
std::string tune_heading(const TuneState& state, int most_trials, double seconds_of_run);
void print_tuning(const TuneState& state, std::ostream& out);
std::string tuning_json(const TuneState& state, tool::Partial partial);

}  // namespace weft::report
