#pragma once
// Where the time of a strategy's steps goes, from the accounts of the reducer.

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
  double begin;  ///< seconds after the first rank began the step
  double end;
};

/// Seconds of a step: medians over steps, means over ranks. Zero if there was no account.
struct StepParts {
  double overlap = 0;
  double link_busy = 0;
  double slowest = 0;  ///< part of the exposed time: waiting for buckets that another rank had not sent
  std::optional<int> slowest_rank;  ///< the rank for which most of it was, over all ranks' steps
  std::vector<double> ready;        ///< by bucket: when the last rank had it, after the last rank began
  std::vector<double> bytes;        ///< by bucket
  std::vector<StepSpan> timeline;   ///< the last step, on all ranks

  /// A lower bound of the step: its buckets leave when they are ready, at `bytes_per_second`.
  double bound(double compute_seconds, double bytes_per_second) const;
};

class AccountedSteps {
 public:
  void add(const StepHistory& history, const BucketPlan& plan);
  /// Collective. @param skipped steps at the beginning that are not measured
  StepParts median(Communicator comm, std::int64_t skipped) const;

 private:
  std::vector<StepAccount> steps_;
  std::vector<std::vector<double>> ready_;  // by added history with the current plan, and by bucket
  std::vector<double> bytes_;
  StepHistory last_;
};

}  // namespace weft::scaling
