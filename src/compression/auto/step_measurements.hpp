#pragma once
// When the buckets of the first steps were ready, how long the wire had them, and how far apart steps were,
// on this rank.
//
// The thread that submits calls all of it; what compute streams write is read when their step has ended.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/compression/codec_choice.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

class BucketTimes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t counted = 4;

  explicit BucketTimes(std::size_t buckets) : buckets_(buckets), seconds_(buckets), took_(buckets) {}

  void begin_step() { times_ = std::make_shared<std::vector<Times>>(buckets_); }
  /// After the work that finishes a bucket's gradients; the wire waits for it, so that it is there with them.
  void ready(std::size_t bucket, Stream compute, Stream wire);
  /// After its means.
  void arrived(std::size_t bucket, Stream wire);
  /// Everything submitted in the step has run.
  /// @param counts whether it is to be remembered
  void end_step(bool counts);

  /// Whether the steps so far say enough.
  bool enough() const { return spans_.size() >= counted; }
  /// By bucket, after the first one's; medians over steps.
  std::vector<double> seconds() const;
  /// By bucket: from when the wire began with it; medians over steps.
  std::vector<double> took_seconds() const;
  /// From one step to the next, where none that does not count was between them; the median.
  double step_seconds() const;

 private:
  struct Times {
    Clock::time_point ready;
    Clock::time_point begun;
    Clock::time_point arrived;
  };

  std::size_t buckets_;
  std::shared_ptr<std::vector<Times>> times_;  // of the step under way, by bucket
  std::optional<Clock::time_point> before_;    // when the step before had its first bucket
  std::vector<std::vector<double>> seconds_;   // by bucket, of steps that count
  std::vector<std::vector<double>> took_;      // the same
  std::vector<double> spans_;
};

/// Before ranks have agreed.
struct StepMeasurements {
  StepProfile profile;  ///< but for its link and its slowdown
  /// By bucket. Ranks that are early wait for others in it: the shortest of all ranks' is the wire's.
  std::vector<double> took_seconds;
  std::vector<LinkModel::Sample> link;  ///< of all_reduces, of the same sizes on all ranks
};

std::int64_t numbers_of(std::size_t buckets, std::size_t link_samples);
std::vector<double> to_numbers(const StepMeasurements& mine);
/// @param mine for what is the same on all ranks: sizes, and what is sharded
StepProfile from_numbers(std::span<const double> numbers, const StepMeasurements& mine,
                         const BucketPlan& plan);

}  // namespace weft::detail
