#include "print.hpp"

#include <algorithm>
#include <ostream>

#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::report {

std::string one_line(std::string words) {
  std::ranges::replace_if(
      words, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return words;
}

void print(const std::vector<Finding>& findings, std::ostream& out) {
  for (const Finding& finding : findings) {
    out << name(finding.severity) << ": " << one_line(finding.verdict) << " [" << finding.cause
        << ", confidence " << finding.confidence << "]\n";
    for (const Evidence& one : finding.evidence) {
      const std::string place = one.line == 0 ? one.file : text(one.file, ", line ", one.line);
      out << "    " << one_line(text(place, ": ", one.text)) << '\n';
    }
    out << "    fix: " << one_line(finding.fix) << '\n';
    if (!finding.effect.empty()) out << "    expected effect: " << one_line(finding.effect) << '\n';
    if (!finding.not_when.empty()) out << "    does not apply when " << one_line(finding.not_when) << '\n';
    if (!finding.versions.empty()) out << "    applies to NCCL " << finding.versions << '\n';
    out << '\n';
  }
}

boost::json::value as_json_text(const std::string& raw) {
  return boost::json::parse(detail::json_string(raw));
}

boost::json::array as_json(const std::vector<Finding>& findings) {
  boost::json::array all;
  for (const Finding& finding : findings) {
    boost::json::array evidence;
    for (const Evidence& one : finding.evidence)
      evidence.push_back(
          {{"file", as_json_text(one.file)}, {"line", one.line}, {"text", as_json_text(one.text)}});
    boost::json::object one{{"cause", finding.cause},
                            {"severity", std::string(name(finding.severity))},
                            {"confidence", finding.confidence},
                            {"evidence", std::move(evidence)},
                            {"fix", finding.fix}};
    if (!finding.effect.empty()) one["expected_effect"] = finding.effect;
    if (!finding.not_when.empty()) one["not_when"] = finding.not_when;
    if (!finding.versions.empty()) one["versions"] = finding.versions;
    all.push_back(std::move(one));
  }
  return all;
}

void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(i + 1 < row.size() ? widths[i] - row[i].size() + 2 : 0, ' ');
    out << line << '\n';
  }
}

}  // namespace weft::report
