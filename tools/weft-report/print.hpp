#pragma once
// Prints the findings of a report, as text and as JSON.

#include <boost/json.hpp>
#include <iosfwd>
#include <string>
#include <vector>

#include "report/finding.hpp"

namespace weft::report {

/// A line for each finding, with its evidence and fix below.
void print(const std::vector<Finding>& findings, std::ostream& out);
boost::json::array as_json(const std::vector<Finding>& findings);
/// Text from a file for JSON: bytes that are not UTF-8 become U+FFFD, for a line may have been cut within a character.
boost::json::value as_json_text(const std::string& raw);

/// A table whose columns are as wide as their widest cell; all rows have the same number of cells.
void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out);
/// Text from a file, made safe for a terminal: one line, no control characters.
std::string one_line(std::string words);

}  // namespace weft::report
