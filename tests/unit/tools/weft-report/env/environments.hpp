#pragma once
// Settings as tests write them, and the causes that are found in them.

#include <set>
#include <string>
#include <vector>

#include "weft-report/env/lint.hpp"

namespace weft::test {

/// One rank with these lines NAME=VALUE.
inline report::Settings settings_of(const std::vector<std::string>& lines) {
  return report::settings_of_process(lines, {});
}

inline std::set<std::string> causes_of(const std::vector<report::Finding>& findings) {
  std::set<std::string> causes;
  for (const report::Finding& one : findings) causes.insert(one.cause);
  return causes;
}

inline std::set<std::string> causes_in(const std::vector<std::string>& lines,
                                       const report::NcclVersion& version = report::newest_known) {
  return causes_of(report::lint({settings_of(lines)}, version));
}

}  // namespace weft::test
