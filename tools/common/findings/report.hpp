#pragma once
// What a command of weft-report concludes, as a value that every output shows: terminal, Markdown, HTML page.
//
//   Report report{.subject = "NCCL job", .looked_at = "48,211 lines of 16 processes on 2 hosts", .findings = examine(job)};
//   report.tables.push_back(hosts_table(run));
//   std::cout << verdict(report) << '\n';
//
// Text from logs may hold anything: each writer passes it through clean() and escapes it for its own form once.
// WRONG: a table whose cells are already escaped; a page would show "&amp;".

#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report {

/// Plain text in rows and columns.
struct TextTable {
  std::string caption{};
  std::vector<std::string> heading{};
  std::vector<std::vector<std::string>> rows{};
  std::size_t words = 0;  ///< how many columns after the first hold text; the others are numbers
  std::string note{};     ///< what its words mean
};

/// A part of a page that only HTML can show.
struct PageSection {
  std::string heading{};
  std::string note{};  ///< plain text
  std::string html{};  ///< empty: the section is left out
};

struct Report {
  std::string subject{};    ///< "NCCL job", "settings of NCCL", "flight records"
  std::string looked_at{};  ///< "48,211 lines of 16 processes on 2 hosts"
  std::vector<Finding> findings{};
  std::vector<TextTable> tables{};
  std::vector<PageSection> sections{};
};

/// In one line: the first finding and how many others there are, or that nothing is wrong.
std::string verdict(const Report& report);
/// "1 critical finding, 2 warnings"; "no finding"
std::string tally(const std::vector<Finding>& findings);
/// "1 host", "2 hosts", "48,211 lines"
std::string counted(std::size_t count, std::string_view what);

/// One line of what a log says, without the carriage return at its end, as core's printable() makes it safe: a log could forge what a reader
/// sees.
std::string clean(std::string_view raw);

}  // namespace weft::report
