#pragma once
// Findings as SARIF 2.1.0, the form that code hosts and editors read: a rule for each cause with its help, and a result for each finding with
// the lines that show it.
//
//   write("findings.sarif", to_sarif(findings, library_version()));
//
// Lines are those of the logs. A path is written as it was given, so that relative paths stay relative to where the program ran.

#include <string>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report {

/// @param findings of any command, most important first @param version of the program
std::string to_sarif(const std::vector<Finding>& findings, const std::string& version);

}  // namespace weft::report
