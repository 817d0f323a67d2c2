#pragma once
// How long a device stream stood still in places: device time, without the host waiting for it.

#include <mutex>

#include "core/cuda/timed_marks.hpp"

namespace weft::detail::cuda {

/// Any thread may ask; one at a time measures, streams of one device.
class Stopwatch {
 public:
  /// The time from here to stop(), in the order of `stream`.
  void start(Stream& stream);
  void stop(Stream& stream);
  /// Of all measurements whose end the device has passed.
  double seconds();

 private:
  struct Span {
    TimedMarks::Mark begin;
    TimedMarks::Mark end;
  };

  void collect();

  std::mutex mutex_;
  std::shared_ptr<TimedMarks> marks_;  // made with the first
  RecycledDeque<Span> spans_;
  TimedMarks::Mark begun_;
  double seconds_ = 0;
};

}  // namespace weft::detail::cuda
