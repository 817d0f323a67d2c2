#pragma once
// Findings of any report, for people and for machines.

#include <boost/json.hpp>
#include <iosfwd>
#include <string>
#include <vector>

#include "report/finding.hpp"

namespace weft::report {

/// A line each with its evidence and fix below.
void print(const std::vector<Finding>& findings, std::ostream& out);
boost::json::array as_json(const std::vector<Finding>& findings);

/// Columns as wide as their widest cell; all rows have the same number of cells.
void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out);
/// What a file says, fit for a terminal: one line, no control characters.
std::string one_line(std::string words);

}  // namespace weft::report
