#pragma once
// Predicts how much communication a step exposes with a codec, by simulating its buckets in the order in
// which they leave: a bucket begins when it is ready and the one before has arrived; what ends after backward
// is exposed.

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

  /// Time of all buckets uncompressed, while no rank computes.
  double wire_seconds() const;
  double exposed_uncompressed() const { return exposed(uncompressed(), 1); }
  double exposed_in_bf16() const;
  /// PowerSGD of these tensors; the others travel uncompressed beside their factors.
  double exposed_compressing(const std::set<ParamId>& tensors) const {
    return exposed(durations(tensors), 1);
  }
  /// The tensors for which PowerSGD makes the step shorter. It starts from all that PowerSGD makes
  /// smaller, and leaves out one after the other, the least saving first, if the step gets no longer:
  /// O(tensors x buckets).
  std::set<ParamId> worth_compressing() const;

 private:
  /// PowerSGD handles a parameter that lies in two buckets in the first of them that leaves.
  struct BucketWork {
    std::vector<ParamId> params;  ///< handled in this bucket
    double bytes = 0;             ///< of the whole bucket
    double elements = 0;          ///< of the whole bucket
  };

  // By bucket, in seconds: uncompressed, or with PowerSGD of `tensors`.
  std::vector<double> uncompressed() const;
  double duration(const BucketWork& work, const std::set<ParamId>& tensors) const;
  std::vector<double> durations(const std::set<ParamId>& tensors) const;
  /// @param slower factor by which everything takes longer than the durations say
  double exposed(const std::vector<double>& durations, double slower) const;
  MatrixShape shape(ParamId id) const { return matrix_shape(plan_.layout(), id); }

  const BucketPlan& plan_;
  const StepProfile& profile_;
  int rank_;
  std::vector<BucketWork> buckets_;
};

}  // namespace weft::detail
