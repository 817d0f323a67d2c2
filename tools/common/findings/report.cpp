#include "common/findings/report.hpp"

#include <algorithm>
#include <array>

#include "common/page/markup.hpp"
#include "core/base/strings.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

std::size_t of(const std::vector<Finding>& findings, Severity severity) {
  return static_cast<std::size_t>(std::ranges::count(findings, severity, &Finding::severity));
}

}  // namespace

std::string clean(std::string_view raw) {
  if (raw.ends_with('\r')) raw.remove_suffix(1);  // of a line of a log that Windows wrote
  return detail::printable(raw);
}

std::string counted(std::size_t count, std::string_view what) {
  return text(grouped(static_cast<double>(count)), ' ', what, count == 1 ? "" : "s");
}

std::string tally(const std::vector<Finding>& findings) {
  std::string words;
  const auto add = [&](Severity severity, std::string_view what) {
    if (const std::size_t count = of(findings, severity); count > 0)
      words += text(words.empty() ? "" : ", ", counted(count, what));
  };
  add(Severity::critical, "critical finding");
  add(Severity::warning, "warning");
  add(Severity::notice, "notice");
  return words.empty() ? "no finding" : words;
}

std::string verdict(const Report& report) {
  if (report.findings.empty()) return text("nothing wrong is seen in ", clean(report.looked_at));
  const Finding& first = report.findings.front();
  return text(name(first.severity), ": ", clean(first.verdict));
}

}  // namespace weft::report
