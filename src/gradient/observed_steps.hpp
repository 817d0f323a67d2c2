#pragma once
// What the first steps of a training show: when gradients are ready, and how long buckets take. From it all
// ranks make the same plan for the rest.

#include <algorithm>
#include <chrono>
#include <vector>

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
  /// From the wire's thread, one bucket after the other.
  void begins() { bucket_begin_ = Clock::now(); }
  void ended(std::size_t bucket) {
    const double seconds = std::chrono::duration<double>(Clock::now() - bucket_begin_).count();
    shortest_[bucket] = std::min(shortest_[bucket], seconds);
  }

  /// Whether the step under way counts. The first does not: nothing is warm then.
  bool counts() const { return steps_ > 1; }
  /// Whether the steps before the one under way say enough.
  bool enough() const { return steps_ > observed; }

  /// Ready times and the link as all ranks have seen them: a gradient is ready when the last rank has it, and
  /// a bucket takes what it took the rank that came last, for the others have waited for that one.
  /// Collective; nothing is on the wire.
  BackwardProfile agree(Communicator& comm, const BucketPlan& plan) const;

 private:
  static constexpr int observed = 4;

  Clock::time_point step_begin_{};
  int steps_ = 0;                  // begun
  std::vector<double> ready_at_;   // by parameter, in the step under way
  std::vector<double> ready_sum_;  // over the steps observed
  Clock::time_point bucket_begin_{};
  std::vector<double> shortest_;  // by bucket
};

/// Seconds of an all_reduce of a few bytes, the least of several tries. Collective.
double measure_latency(Communicator& comm);

}  // namespace weft::detail
