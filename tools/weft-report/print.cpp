#include "print.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "common/findings/report.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

/// Where a report is printed. Lines are wrapped at 80 to 120 columns of a terminal: longer ones are hard to read.
struct Screen {
  bool is_terminal = false;
  std::size_t width = 0;  ///< 0: no wrapping
};

Screen screen_of(const std::ostream& out) {
  const int file = &out == &std::cout ? STDOUT_FILENO : &out == &std::cerr ? STDERR_FILENO : -1;
  if (file < 0 || isatty(file) != 1) return {};
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
  return {true, std::clamp<std::size_t>(size.ws_col, 80, 120)};
}

std::size_t width_of(std::string_view words) {
  return static_cast<std::size_t>(
      std::ranges::count_if(words, [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

/// Breaks at spaces; what follows the first line is indented.
std::string wrapped(const std::string& line, const Screen& screen, std::size_t indent) {
  if (screen.width == 0 || width_of(line) <= screen.width) return line + '\n';
  std::string result;
  std::string_view rest = line;
  std::size_t start = 0;
  while (width_of(rest) + start > screen.width) {
    std::size_t at = rest.rfind(' ', screen.width - start);
    if (at == std::string_view::npos || at <= (start == 0 ? indent : 0))
      at = rest.find(' ', screen.width - start);
    if (at == std::string_view::npos) break;
    result.append(start, ' ').append(rest.substr(0, at)).append("\n");
    rest.remove_prefix(at + 1);
    start = indent;
  }
  return result.append(start, ' ').append(rest).append("\n");
}

const char* colour_of(Severity severity) {
  return severity == Severity::critical  ? "\033[1;31m"
         : severity == Severity::warning ? "\033[1;33m"
                                         : "\033[1;36m";
}

void print(const Finding& finding, const Screen& screen, std::ostream& out) {
  const std::string_view severity = name(finding.severity);
  std::string head = wrapped(text(severity, ": ", one_line(finding.verdict), " [", finding.cause,
                                  ", confidence ", finding.confidence, ']'),
                             screen, 4);
  if (screen.is_terminal)
    head = text(colour_of(finding.severity), severity, "\033[0m", head.substr(severity.size()));
  out << head;
  for (const Evidence& one : finding.evidence) {
    const std::string place = one.line == 0 ? one.file : text(one.file, ", line ", one.line);
    out << wrapped("    " + one_line(text(place, ": ", one.text)), screen, 8);
  }
  const auto add = [&](const char* label, const std::string& words) {
    if (!words.empty()) out << wrapped(text("    ", label, ' ', one_line(words)), screen, 8);
  };
  add("fix:", finding.fix);
  add("expected effect:", finding.effect);
  add("does not apply when", finding.not_when);
  add("applies to NCCL", finding.versions);
  out << '\n';
}

}  // namespace

std::string one_line(const std::string& words) {
  return clean(words);
}

void print(const std::vector<Finding>& findings, std::ostream& out) {
  const Screen screen = screen_of(out);
  for (const Finding& finding : findings) print(finding, screen, out);
}

void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> safe = rows;
  for (auto& row : safe) {
    std::ranges::transform(row, row.begin(), [](const std::string& cell) { return clean(cell); });
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  for (const auto& cells : safe) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i)
      line += cells[i] + std::string(i + 1 < cells.size() ? widths[i] - width_of(cells[i]) + 2 : 0, ' ');
    out << line << '\n';
  }
}

void print(const TextTable& table, std::ostream& out) {
  if (table.rows.empty()) return;
  const auto is_known = [&](std::size_t column) {
    return std::ranges::any_of(table.rows, [&](const auto& row) { return row[column] != "-"; });
  };
  std::vector<std::vector<std::string>> rows(1 + table.rows.size());
  for (std::size_t column = 0; column < table.heading.size(); ++column) {
    if (!is_known(column)) continue;
    rows.front().push_back(table.heading[column]);
    for (std::size_t i = 0; i < table.rows.size(); ++i) rows[i + 1].push_back(table.rows[i][column]);
  }
  out << clean(table.caption) << '\n';
  print_table(rows, out);
  if (!table.note.empty()) out << '\n' << wrapped(clean(table.note), screen_of(out), 0);
  out << '\n';
}

}  // namespace weft::report
