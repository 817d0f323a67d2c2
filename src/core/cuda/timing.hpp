#pragma once
// Device time between places in streams, without the host waiting for the device. A timed CUDA event is
// recorded at each place and asked once the device has passed it; events are used again.

#include <atomic>
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

 private:
  std::shared_ptr<Runtime> runtime_;
  int device_;
  std::vector<NativeEvent> all_;
  std::vector<NativeEvent> free_;
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
