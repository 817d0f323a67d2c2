#pragma once
// What auto_hook records of the first steps on this rank (BucketTimes), and how the figures of all ranks
// become one profile (StepMeasurements): figures are made numbers of which the maximum over ranks is the
// slowest rank's, so one all_reduce(max) gives every rank the same profile.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/cuda/timing.hpp"
#include "weft/compression/codec_choice.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

/// When buckets are ready, how long the wire takes for each, and how long steps are. The thread that submits
/// calls all functions; the times that streams record are read after their step has ended. Times of a device's streams are
/// those at which the device passes a place, on the host's clock.
class BucketTimes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t counted = 4;

  /// @param device whose streams compute and wire are
  explicit BucketTimes(std::size_t buckets, Device device = {});

  void begin_step() { times_ = std::make_shared<std::vector<Times>>(buckets_); }
  /// Call it after the work that finishes a bucket's gradients was submitted. The wire waits for that work,
  /// so the time it records is not earlier.
  void ready(std::size_t bucket, Stream compute, Stream wire);
  /// Call it after the work that makes the bucket's means was submitted.
  void arrived(std::size_t bucket, Stream wire);
  /// Call it when everything submitted in the step has run.
  /// @param counts false: the step's times are dropped
  /// @throws Error (timeout) for a device that has not passed the step's places by the deadline
  void end_step(bool counts, Deadline deadline);

  /// Whether `counted` steps were recorded.
  bool enough() const { return spans_.size() >= counted; }
  /// By bucket: when it is ready, counted from the first bucket. Medians over steps.
  std::vector<double> ready_seconds() const;
  /// By bucket: from when the wire begins with it until its means are there. Medians over steps.
  std::vector<double> took_seconds() const;
  /// The median time from one step to the next, of pairs that both count.
  double step_seconds() const;

 private:
  struct Times {
    Clock::time_point ready;
    Clock::time_point begun;
    Clock::time_point arrived;
  };

  /// Writes the time at which `stream` gets here.
  void note(Stream stream, Clock::time_point& to);

  std::size_t buckets_;
  std::optional<cuda::DeviceClock> device_clock_;
  std::shared_ptr<std::vector<Times>> times_;       // of the current step, by bucket
  std::optional<Clock::time_point> before_;         // when the previous step's first bucket was ready
  std::vector<std::vector<double>> ready_seconds_;  // by bucket, of steps that count
  std::vector<std::vector<double>> took_;           // by bucket, of steps that count
  std::vector<double> spans_;
};

/// The figures of one rank, before ranks have agreed.
struct StepMeasurements {
  StepProfile profile;  ///< without link and slowdown
  /// By bucket. Early ranks wait for late ones in it, so the shortest over ranks is the wire's own time.
  std::vector<double> took_seconds;
  std::vector<LinkModel::Sample> link;  ///< all_reduces, of the same sizes on all ranks
};

/// How many numbers to_numbers() returns.
std::int64_t numbers_of(std::size_t buckets, std::size_t link_samples);
/// Figures as numbers of which the largest is the slowest rank's; took_seconds are negated, since the
/// shortest is wanted.
std::vector<double> to_numbers(const StepMeasurements& mine);
/// @param numbers the maximum over ranks
/// @param mine gives what is the same on all ranks: sizes, and whether means are sharded
StepProfile from_numbers(std::span<const double> numbers, const StepMeasurements& mine,
                         const BucketPlan& plan);

}  // namespace weft::detail
