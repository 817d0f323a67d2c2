#pragma once
// What the first steps of a training show: when gradients are ready, and how long buckets take. All ranks
// then make the same plan from it.
//
// The first step does not count: nothing is warm then. Over the next four,
//   - a gradient is ready at its mean time on each rank, and over ranks at the latest of these;
//   - a bucket takes, in the mean over ranks and steps, the time from when it was ready and the bucket before
//     it had ended to its own end. Waiting for late ranks, or for a core, so becomes a part of each bucket's
//     latency. With the shortest times instead, plans had three times the buckets and exposed more
//     (bench/results);
//   - the link is the line through (bytes, seconds) of all buckets. Where all have one size,
//     small all_reduces measure the latency (measure_latency()).
// Price, once: an all_reduce of 8 bytes per parameter, and one of 8 bytes per bucket.

#include <algorithm>
#include <chrono>
#include <vector>

#include "gradient/reducer/step_clock.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_planner.hpp"

namespace weft::detail {

class ObservedSteps {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ObservedSteps(const BucketPlan& plan);

  /// Begins a step whose gradients are exchanged, and keeps what the last one showed.
  void begin_step();
  void ready(ParamId id) {
    ready_at_[index(id)] = std::chrono::duration<double>(Clock::now() - step_begin_).count();
  }
  /// Whether the steps so far say enough.
  bool enough() const { return steps_ > static_cast<int>(counted); }

  /// Ready times and the link, the same on all ranks. Collective, while nothing is on the wire; blocks.
  /// @param clock has the steps that count @param wire the stream that carries buckets
  BackwardProfile agree(Communicator& comm, const BucketPlan& plan, const StepClock& clock,
                        const Stream& wire) const;

 private:
  static constexpr std::size_t counted = 4;

  /// Whether this step counts.
  bool counts() const { return steps_ > 1; }

  Clock::time_point step_begin_{};
  int steps_ = 0;                  // begun
  std::vector<double> ready_at_;   // by parameter, in this step
  std::vector<double> ready_sum_;  // over earlier steps that count
};

/// The plan for the steps that are observed: small and large buckets in turn, so that both ends of the link's
/// line are seen under the load of a backward pass. From the last parameter on, a bucket of one parameter and
/// one of at least 1 MiB.
BucketPlan probing_plan(const ParamLayout& layout);

/// Seconds of an all_reduce of 64 bytes on `wire`: the median of nine, and the largest over ranks.
/// Collective.
double measure_latency(Communicator& comm, const Stream& wire);

}  // namespace weft::detail
