#pragma once
// A point in time after which waiting is an error. A value; pass it down instead of a duration, so that
// nested waits share one budget.
//
//   Deadline deadline = Deadline::in(std::chrono::seconds(10));
//   while (!ready()) { if (deadline.passed()) throw ...; backoff.pause(); }

#include <chrono>
#include <optional>

namespace weft {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Reads no clock, so that it costs nothing for an operation that completes at once.
  static Deadline never() { return Deadline({}, Clock::time_point::max()); }
  static Deadline in(std::chrono::nanoseconds wait) {
    const auto now = Clock::now();
    return Deadline(now, wait >= Clock::time_point::max() - now ? Clock::time_point::max() : now + wait);
  }

  bool passed() const { return end_ != Clock::time_point::max() && Clock::now() >= end_; }
  Clock::time_point end() const { return end_; }
  /// The time that is left, never negative.
  std::chrono::nanoseconds left() const {
    const auto now = Clock::now();
    return now >= end_ ? std::chrono::nanoseconds{0} : end_ - now;
  }
  /// Seconds since the deadline was set, for messages; meaningless for never().
  double waited_seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// Seconds that it allowed when it was set, for messages; meaningless for never().
  double allowed_seconds() const { return std::chrono::duration<double>(end_ - start_).count(); }

 private:
  Deadline(Clock::time_point start, Clock::time_point end) : start_(start), end_(end) {}

  Clock::time_point start_;
  Clock::time_point end_;
};

}  // namespace weft
