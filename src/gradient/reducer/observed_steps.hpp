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
#include <memory>
#include <optional>
#include <vector>

#include "core/cuda/timing.hpp"
#include "gradient/reducer/step_clock.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_planner.hpp"

namespace weft::detail {

class ObservedSteps {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ObservedSteps(const BucketPlan& plan);

  /// Begins a step whose gradients are exchanged, and keeps what the last one showed.
  /// @param device where the gradients' streams are of one, which has passed all of the last step; otherwise null
  /// @param compute the last step's stream on it, if there was one
  void begin_step(cuda::DeviceClock* device, const std::optional<Stream>& compute);
  void ready(ParamId id, cuda::DeviceClock* device, const Stream& stream) {
    Clock::time_point& at = times_->ready[index(id)];
    if (device == nullptr) {
      at = Clock::now();
    } else {
      device->note(stream, {times_, &at});
    }
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

  /// The times of this step. Times of a device are known when it has passed the place.
  struct Times {
    Clock::time_point begin{};
    std::vector<Clock::time_point> ready;  // by parameter
  };
  double ready_seconds(std::size_t parameter) const {
    return std::chrono::duration<double>(times_->ready[parameter] - times_->begin).count();
  }

  int steps_ = 0;  // begun
  std::shared_ptr<Times> times_ = std::make_shared<Times>();
  std::vector<double> ready_sum_;  // by parameter, over earlier steps that count
};

/// The plan for the steps that are observed: small and large buckets in turn, so that both ends of the link's
/// line are seen under the load of a backward pass. From the last parameter on, a bucket of one parameter and
/// one of at least 1 MiB.
BucketPlan probing_plan(const ParamLayout& layout);

/// Seconds of an all_reduce of 64 bytes on `wire`: the median of nine, and the largest over ranks.
/// Collective.
double measure_latency(Communicator& comm, const Stream& wire);

}  // namespace weft::detail
