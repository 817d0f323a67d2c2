#pragma once
// Two runs beside each other: which findings are new, gone or the same, which facts differ, and how the bandwidth of each size changed. Pure.
//
//   const RunDiff diff = compare(read_run(old_file, "old.json"), run_of(log.job(), examine(log.job()), {}));
//   return exit_status(diff.fresh);
//
// Findings are the same where their cause is; the hosts may be others. WRONG: the order of the arguments turned; new findings would be gone.

#include <string>
#include <vector>

#include "weft-report/output/run.hpp"

namespace weft::report {

/// A fact that differs; "-" where a run does not say it.
struct Change {
  std::string what{};
  std::string before{};
  std::string after{};
};

struct SpeedChange {
  std::string table{};
  std::int64_t bytes = 0;
  double before = 0;  ///< busbw in GB/s
  double after = 0;
  double ratio() const { return before > 0 ? after / before : 0; }
};

struct RunDiff {
  std::vector<Finding> fresh{};  ///< in the second run alone, or more severe there
  std::vector<Finding> gone{};
  std::vector<Finding> same{};  ///< as in the second run
  std::vector<Change> facts{};
  std::vector<SpeedChange> speeds{};  ///< of sizes that both runs measured
};

RunDiff compare(const RunFacts& before, const RunFacts& after);

/// "1 new finding, 2 are gone, 1 is the same; 3 facts differ; bandwidth is 0.52 to 1.01 times the earlier one"
std::string verdict(const RunDiff& diff);
TextTable facts_table(const RunDiff& diff);
TextTable speeds_table(const RunDiff& diff);
/// One line each: "shm-too-small (critical): /dev/shm is too small"
TextTable findings_table(const std::string& caption, const std::vector<Finding>& findings);
std::string to_json(const RunDiff& diff);

}  // namespace weft::report
