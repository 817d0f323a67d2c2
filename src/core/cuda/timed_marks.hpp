#pragma once
// Places in streams of one device whose distance in time will be asked: timed events, used again and again.

#include <atomic>
#include <memory>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail::cuda {

/// Destroys its events with itself; work that is still queued keeps it alive. One thread at a time uses it.
class TimedMarks : public std::enable_shared_from_this<TimedMarks> {
 public:
  /// An event is recorded when its turn in the host's queue comes; before, CUDA takes it for passed.
  struct Mark {
    NativeEvent event = nullptr;
    std::shared_ptr<std::atomic<bool>> recorded{};
  };

  explicit TimedMarks(int device) : runtime_(runtime()), device_(device) {}
  ~TimedMarks();
  TimedMarks(const TimedMarks&) = delete;
  TimedMarks& operator=(const TimedMarks&) = delete;

  /// The place after everything submitted to `stream` so far.
  Mark take(Stream& stream);
  bool passed(const Mark& mark) const { return *mark.recorded && runtime_->passed(mark.event); }
  /// Of marks that were passed.
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

}  // namespace weft::detail::cuda
