#pragma once
// What the first steps of a training show: when gradients are ready, and how long buckets take. From it all
// ranks make the same plan for the rest.

#include <algorithm>
#include <chrono>
#include <vector>

#include "gradient/step_clock.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_planner.hpp"

namespace weft::detail {

class ObservedSteps {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ObservedSteps(const BucketPlan& plan);

  /// A step whose gradients are exchanged; what the one before showed is kept.
  void begin_step();
  void ready(ParamId id) {
    ready_at_[index(id)] = std::chrono::duration<double>(Clock::now() - step_begin_).count();
  }
  /// Whether the steps so far say enough.
  bool enough() const { return steps_ > static_cast<int>(counted); }

  /// Ready times and the link as all ranks have seen them: a gradient is ready when the last rank has it, and
  /// a bucket takes what it takes a rank in the mean, over the steps that count. So waiting for ranks that
  /// are late, or for a core, is a part of every bucket's latency: with the shortest times instead, plans had
  /// three times the buckets and exposed more (bench/results). Collective; nothing is on the wire.
  /// What a bucket waits for after it could have left and after the one before it, a turn on a core too, is
  /// the link's doing. @param clock when they were ready and there @param wire that carries buckets
  BackwardProfile agree(Communicator& comm, const BucketPlan& plan, const StepClock& clock,
                        const Stream& wire) const;

 private:
  static constexpr std::size_t counted = 4;

  /// Whether the step under way counts. The first does not: nothing is warm then.
  bool counts() const { return steps_ > 1; }

  Clock::time_point step_begin_{};
  int steps_ = 0;                  // begun
  std::vector<double> ready_at_;   // by parameter, in the step under way
  std::vector<double> ready_sum_;  // over the steps before it that count
};

/// For the steps that are observed: small and large buckets in turn, so that both ends of the link's line are
/// seen under the load of a backward pass. From the last parameter on, a bucket of one and one of at least 1
/// MiB.
BucketPlan probing_plan(const ParamLayout& layout);

/// Seconds of an all_reduce of a few bytes on a stream, the median of several tries. Collective.
double measure_latency(Communicator& comm, const Stream& wire);

}  // namespace weft::detail
