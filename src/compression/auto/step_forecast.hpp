#pragma once
// What a step would expose under a code, by simulating its buckets in the order in which they leave.

#include <set>
#include <vector>

#include "compression/power_sgd/power_sgd_tensors.hpp"
#include "weft/compression/codec_choice.hpp"

namespace weft::detail {

/// @throws Error (usage) for a rank below 1, a gain outside of [0, 1), a negative start
void check(const AutoOptions& options);

class StepForecast {
 public:
  StepForecast(const BucketPlan& plan, const StepProfile& profile, int rank);

  /// Of all buckets as they are, while nobody computes.
  double wire_seconds() const;
  double exposed_as_it_is() const { return exposed(as_it_is(), 1); }
  double exposed_in_bf16() const;
  /// PowerSGD of these, the others as they are beside their factors.
  double exposed_compressing(const std::set<ParamId>& tensors) const {
    return exposed(durations(tensors), 1);
  }
  /// Those without which a step would be longer.
  std::set<ParamId> worth_compressing() const;

 private:
  /// Of a bucket: what begins in it, for PowerSGD deals with a parameter in the first that leaves with it.
  struct BucketWork {
    std::vector<ParamId> params;
    double bytes = 0;     ///< of all of it
    double elements = 0;  ///< the same
  };

  std::vector<double> as_it_is() const;
  double duration(const BucketWork& work, const std::set<ParamId>& tensors) const;
  std::vector<double> durations(const std::set<ParamId>& tensors) const;
  /// @param slower by so much than the durations say
  double exposed(const std::vector<double>& durations, double slower) const;
  MatrixShape shape(ParamId id) const { return matrix_shape(plan_.layout(), id); }

  const BucketPlan& plan_;
  const StepProfile& profile_;
  int rank_;
  std::vector<BucketWork> buckets_;  // by bucket
};

}  // namespace weft::detail
