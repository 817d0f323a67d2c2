#pragma once
// The result of a report: findings, each with its evidence and its fix, most important first. Plain values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::report {

enum class Severity : std::uint8_t { notice, warning, critical };

constexpr std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::notice:
      return "notice";
    case Severity::warning:
      return "warning";
    case Severity::critical:
      break;
  }
  return "critical";
}

struct Evidence {
  std::string file;
  int line = 0;  ///< line of the file, from 1; 0 where that does not apply
  std::string text;
};

/// A fact with the line that stated it first.
struct Fact {
  std::string value{};
  Evidence evidence{};
  explicit operator bool() const { return !value.empty(); }
};

struct Finding {
  std::string cause;  ///< a key for machines: "rank-behind"
  Severity severity = Severity::critical;
  double confidence = 1;
  std::string verdict{};  ///< for people, in one line
  std::vector<Evidence> evidence{};
  std::string fix{};
  std::string effect{};    ///< what the fix brings; empty: it says so itself
  std::string not_when{};  ///< when the finding does not apply; empty: it always does
  std::string versions{};  ///< of NCCL, to which it is limited: "2.17 and newer"; empty: all
};

/// Places in `findings`: of the most severe first; of these of the surest first. Others keep their order.
std::vector<std::size_t> order_of_importance(const std::vector<const Finding*>& findings);

/// In that order.
void sort_by_importance(std::vector<Finding>& findings);

/// The same of values that each hold a finding.
template <typename Holder>
void sort_by_importance(std::vector<Holder>& all) {
  std::vector<const Finding*> findings;
  for (const Holder& one : all) findings.push_back(&one.finding);
  std::vector<Holder> sorted;
  for (const std::size_t at : order_of_importance(findings)) sorted.push_back(std::move(all[at]));
  all = std::move(sorted);
}

/// The exit status of a program: 0 nothing wrong, 1 warnings only, 2 something critical.
inline int exit_status(const std::vector<Finding>& findings) {
  Severity worst = Severity::notice;
  for (const Finding& finding : findings) worst = std::max(worst, finding.severity);
  return static_cast<int>(worst);
}

}  // namespace weft::report
