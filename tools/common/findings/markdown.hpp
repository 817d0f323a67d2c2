#pragma once
// A report as Markdown, to be put into an issue or a pull request: verdict, findings with their lines, tables.
//
// Text from logs is shown as it is: it makes no markup, no link, and no mention of a person or an issue.

#include <string>
#include <string_view>

#include "common/findings/report.hpp"

namespace weft::report {

std::string to_markdown(const Report& report);

/// Plain text within a line of Markdown, cleaned and escaped.
std::string markdown_text(std::string_view raw);
/// Lines of code, in a fence that none of them can end. @param lines each ends with a line feed
std::string markdown_code(std::string_view lines);

}  // namespace weft::report
