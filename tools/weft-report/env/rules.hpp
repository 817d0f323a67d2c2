#pragma once
// Rules about settings that are dangerous, left over, or contradict each other, as rows.

#include <span>
#include <string_view>
#include <vector>

#include "weft-report/env/nccl_version.hpp"
#include "weft-report/env/settings.hpp"

namespace weft::report {

/// What must hold of a variable. rules.cpp says how `when` is written.
struct Condition {
  std::string_view
      name;  ///< a * at its end stands for any other variable; @rank for the variables that mark a rank
  std::string_view when;
};

struct Rule {
  std::string_view cause;
  Severity severity = Severity::warning;
  double confidence = 1;
  std::string_view since;  ///< of NCCL; empty: any version
  std::string_view why;
  std::string_view fix;
  Condition conditions[3];  ///< all of them must hold
};

/// The causes are all different.
std::span<const Rule> setting_rules();

/// What the rules find in the settings of one rank or host.
std::vector<Finding> apply_rules(const Settings& settings, const NcclVersion& version);

}  // namespace weft::report
