#pragma once
// When the buckets of the first steps were ready, and how far apart steps were, on this rank.
//
// The thread that submits calls all of it; what compute streams write is read when their step has ended.

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "weft/core/stream.hpp"

namespace weft::detail {

class ReadyTimes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t counted = 4;

  explicit ReadyTimes(std::size_t buckets) : buckets_(buckets) {}

  void begin_step() { ready_ = std::make_shared<std::vector<Clock::time_point>>(buckets_); }
  /// After the work that finishes a bucket's gradients; the wire waits for it, so that it is there with them.
  void note(std::size_t bucket, Stream compute, Stream wire);
  /// Everything submitted in the step has run.
  /// @param counts whether it is to be remembered
  void end_step(bool counts);

  /// Whether the steps so far say enough.
  bool enough() const { return spans_.size() >= counted; }
  /// By bucket, after the first one's; medians over steps.
  std::vector<double> seconds() const;
  /// From one step to the next, where none that does not count was between them; the median.
  double step_seconds() const;

 private:
  std::size_t buckets_;
  std::shared_ptr<std::vector<Clock::time_point>> ready_;  // of the step under way
  std::optional<Clock::time_point> before_;                // when the step before had its first bucket
  std::vector<std::vector<double>> seconds_;               // by step that counts
  std::vector<double> spans_;
};

}  // namespace weft::detail
