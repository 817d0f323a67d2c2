#pragma once
// Prints the findings of a report for people. On a terminal, severities have colours and long lines are wrapped; elsewhere a line of the report
// is a line, for grep.

#include <iosfwd>
#include <string>
#include <vector>

#include "common/findings/finding.hpp"
#include "common/findings/report.hpp"

namespace weft::report {

/// A line for each finding, with its evidence and fix below.
void print(const std::vector<Finding>& findings, std::ostream& out);
/// A table whose columns are as wide as their widest cell; all rows have the same number of cells.
void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out);
/// Between its caption and its note, its cells cleaned; a column of "-" alone is left out. Without rows it prints nothing.
void print(const TextTable& table, std::ostream& out);
/// Text from a file, made safe for a terminal: one line, no control characters.
std::string one_line(const std::string& words);

}  // namespace weft::report
