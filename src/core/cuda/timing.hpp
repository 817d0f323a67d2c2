#pragma once
// Device time between places in streams, without the host waiting for the device, and such places on the host's
// clock. A timed CUDA event is recorded at each place and asked once the device has passed it; events are used again.

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail::cuda {

/// Timed events of one device. Its destructor destroys them; work that is still queued keeps it alive. One
/// thread at a time uses it.
class TimedMarks : public std::enable_shared_from_this<TimedMarks> {
 public:
  /// The event is recorded when the host's queue gets there. `recorded` is false until then, because CUDA
  /// reports an event that was never recorded as passed.
  struct Mark {
    NativeEvent event = nullptr;
    std::shared_ptr<std::atomic<bool>> recorded{};
  };

  explicit TimedMarks(int device) : runtime_(runtime()), device_(device) {}
  ~TimedMarks();
  TimedMarks(const TimedMarks&) = delete;
  TimedMarks& operator=(const TimedMarks&) = delete;

  /// Marks the place after everything submitted to `stream` so far.
  Mark take(Stream& stream);
  bool passed(const Mark& mark) const { return *mark.recorded && runtime_->passed(mark.event); }
  /// Both marks must have passed.
  double seconds_between(const Mark& begin, const Mark& end) const {
    return runtime_->seconds_between(begin.event, end.event);
  }
  void give_back(const Mark& mark) { free_.push_back(mark.event); }

  using HostClock = std::chrono::steady_clock;
  /// Waits for a mark and looks at the host's clock, from which time_of() then counts.
  void set_base();
  /// When the device passed a mark, which is given back. Marks are asked for in about the order in which they passed: CUDA counts milliseconds in
  /// f32, so that the base moves along, every 10 s.
  HostClock::time_point time_of(const Mark& mark);

 private:
  std::shared_ptr<Runtime> runtime_;
  int device_;
  std::vector<NativeEvent> all_;
  std::vector<NativeEvent> free_;
  Mark base_;
  HostClock::time_point base_time_;
};

/// Notes when the device passes places in streams, on the host's clock. One thread notes and collects.
class DeviceClock {
 public:
  using Clock = TimedMarks::HostClock;

  explicit DeviceClock(int device);

  /// @param to gets the time of this place in `stream`, in a later call of collect() or finish()
  void note(Stream stream, std::shared_ptr<Clock::time_point> to);
  /// Writes the times that there are. Does not wait.
  void collect();
  /// Waits until all that was noted has passed. @throws Error (timeout), and what work on the streams failed with
  void finish(Deadline deadline);

 private:
  struct Note {
    TimedMarks::Mark mark;
    std::shared_ptr<Clock::time_point> to;
  };

  std::shared_ptr<TimedMarks> marks_;
  RecycledDeque<Note> notes_;
};

/// Sums the device time between pairs of places. One thread at a time measures, on streams of one device; any
/// thread may ask for the sum.
class Stopwatch {
 public:
  /// Begins a measurement at this place in `stream`; stop() ends it.
  void start(Stream& stream);
  void stop(Stream& stream);
  /// The sum of the measurements whose end the device has passed.
  double seconds();

 private:
  struct Span {
    TimedMarks::Mark begin;
    TimedMarks::Mark end;
  };

  void collect();

  std::mutex mutex_;
  std::shared_ptr<TimedMarks> marks_;  // made by the first start()
  RecycledDeque<Span> spans_;
  TimedMarks::Mark begun_;
  double seconds_ = 0;
};

}  // namespace weft::detail::cuda
