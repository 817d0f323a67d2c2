#pragma once
// Where the time of a strategy's steps went, from the reducer's accounts.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/weft.hpp"

namespace weft::scaling {

struct StepSpan {
  int rank;
  std::string track;  ///< "compute", "wire" or "waiting"
  std::string name;
  double begin;  ///< seconds from when the first rank began the step
  double end;
};

/// Seconds a step: medians over steps, means over ranks. Zero where nothing was accounted for.
struct StepParts {
  double overlap = 0;
  double link_busy = 0;
  double slowest = 0;  ///< of the exposed time, waiting for buckets that another rank had not brought
  std::optional<int> slowest_rank;  ///< whom most of it, of all ranks' steps, was for
  std::vector<double> ready;        ///< by bucket: when the last rank had it, after the last rank's beginning
  std::vector<double> bytes;        ///< by bucket
  std::vector<StepSpan> timeline;   ///< of the last step, all ranks

  /// What no step can be shorter than: its buckets leave when they are ready, at `bytes_per_second`.
  double bound(double compute_seconds, double bytes_per_second) const;
};

class AccountedSteps {
 public:
  void add(const StepHistory& history, const BucketPlan& plan);
  /// Collective. @param skipped steps at the beginning that do not count
  StepParts median(Communicator comm, std::int64_t skipped) const;

 private:
  std::vector<StepAccount> steps_;
  std::vector<std::vector<double>> ready_;  // by history that was added with the plan in force, and bucket
  std::vector<double> bytes_;
  StepHistory last_;
};

}  // namespace weft::scaling
