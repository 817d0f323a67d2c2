#pragma once
// What is wrong with the settings of NCCL, before a job runs (weft-report env).
//
//   std::vector<Settings> ranks{read_settings(content, "node0.env", Lines::environment)};
//   for (const Finding& finding : lint(ranks, newest_known)) ...
//
// Causes: unknown-variable, variable-gone, variable-not-yet, variable-without-effect, value-not-allowed, those of setting_rules(), env-mismatch,
// environment-not-passed, version-mismatch, another-version, and the remarks of the reader: set-twice, value-in-quotes, conf-line-ignored,
// conf-value-with-rest, conf-value-cut, conf-value-hidden.

#include <string>
#include <string_view>
#include <vector>

#include "weft-report/env/nccl_version.hpp"
#include "weft-report/env/settings.hpp"

namespace weft::report {

/// All findings, most important first. What several ranks have alike is one finding.
/// @param ranks each a rank or a host
std::vector<Finding> lint(const std::vector<Settings>& ranks, const NcclVersion& version);

/// The parts of it. Names that NCCL does not read, and values that it does not take.
std::vector<Finding> check_names(const Settings& settings, const NcclVersion& version);
std::vector<Finding> check_values(const Settings& settings, const NcclVersion& version);
/// What differs between ranks that must not.
std::vector<Finding> compare_ranks(const std::vector<Settings>& ranks);

/// The variables of NCCL whose names are nearest to `name`, where they are near: all that are equally near, at most three.
std::vector<std::string_view> nearest_variables(std::string_view name);

/// How many settings there are that NCCL reads, or would read in another version.
int count_settings(const Settings& settings);

}  // namespace weft::report
