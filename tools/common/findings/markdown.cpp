#include "common/findings/markdown.hpp"

#include <algorithm>

#include "weft/core/text.hpp"

namespace weft::report {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Code hosts make links of "@name", "#7", "https://" and "www." wherever they stand in text. A comment between breaks them, and is not seen.
constexpr std::string_view empty_comment = "<!-- -->";

std::string markdown_row(const std::vector<std::string>& row) {
  std::string line = "|";
  for (const std::string& cell : row) line += text(' ', markdown_text(cell), " |");
  return line + "\n";
}

std::string markdown_table(const TextTable& table) {
  std::string result = text("## ", markdown_text(table.caption), "\n\n", markdown_row(table.heading), '|');
  for (std::size_t i = 0; i < table.heading.size(); ++i) result += i <= table.words ? " --- |" : " ---: |";
  result += '\n';
  for (const auto& row : table.rows) result += markdown_row(row);
  return result + (table.note.empty() ? "\n" : text('\n', markdown_text(table.note), "\n\n"));
}

std::string finding_part(const Finding& one) {
  std::string result = text("## ", name(one.severity), ": ", markdown_text(one.verdict), "\n\n`", one.cause,
                            "`, confidence ", one.confidence, "\n\n");
  std::string lines;
  for (const Evidence& evidence : one.evidence) {
    const std::string line = evidence.line > 0 ? text(':', evidence.line) : std::string();
    lines += text(clean(evidence.file), line, ": ", clean(evidence.text), '\n');
  }
  if (!lines.empty()) result += markdown_code(lines) + "\n";
  const auto add = [&](std::string_view label, const std::string& words) {
    if (!words.empty()) result += text("- **", label, "** ", markdown_text(words), '\n');
  };
  add("To do:", one.fix);
  add("Expected effect:", one.effect);
  add("Does not apply when", one.not_when);
  add("Applies to NCCL", one.versions);
  return result + "\n";
}

}  // namespace

std::string markdown_text(std::string_view raw) {
  const std::string words = clean(raw);
  constexpr std::string_view marks = "\\`*[]<>|~&$";
  std::string safe;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char c = words[i];
    const bool within = i > 0 && i + 1 < words.size() && is_word(words[i - 1]) && is_word(words[i + 1]);
    if (marks.find(c) != std::string_view::npos || (c == '_' && !within)) safe += '\\';
    safe += c;
    const std::string_view rest = std::string_view(words).substr(i + 1);
    if (((c == '@' || c == '#') && !rest.empty()) || (c == ':' && rest.starts_with("//")))
      safe += empty_comment;
    if ((c == 'w' || c == 'W') && rest.starts_with('.')) safe += empty_comment;
  }
  return safe;
}

std::string markdown_code(std::string_view lines) {
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : lines) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(std::max<std::size_t>(3, longest + 1), '`');
  return text(fence, "text\n", lines, fence, '\n');
}

std::string to_markdown(const Report& report) {
  std::string page =
      text("# ", markdown_text(report.subject), ": ",
           report.findings.empty() ? "nothing wrong is seen" : markdown_text(report.findings.front().verdict),
           "\n\n**", tally(report.findings), "** in ", markdown_text(report.looked_at), ".\n\n");
  for (const Finding& one : report.findings) page += finding_part(one);
  for (const TextTable& one : report.tables) {
    if (!one.rows.empty()) page += markdown_table(one);
  }
  return page;
}

}  // namespace weft::report
