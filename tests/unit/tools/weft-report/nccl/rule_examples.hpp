#pragma once
// For each rule a log that fires it, and one that is nearly the same and does not. Written by hand; hosts are made up.

#include <string>
#include <vector>

namespace weft::report::nccl::test {

/// A log; or several files, each after a line "=== its name".
struct RuleExample {
  std::string cause;
  std::string fires;
  std::string near_miss;
  bool of_records = false;  ///< of PyTorch: evidence in them has no line
};

/// For rows of line_rules().
const std::vector<RuleExample>& line_examples();
/// For rows of job_rules() and network_rules().
const std::vector<RuleExample>& job_examples();
/// For rows of topology_rules(), file_rules() and host_rules().
const std::vector<RuleExample>& topology_examples();
/// For rows of bandwidth_rules().
const std::vector<RuleExample>& bandwidth_examples();

}  // namespace weft::report::nccl::test
