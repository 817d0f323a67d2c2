#pragma once
// How long a device stream stood still in places: device time, without the host waiting for it.

#include <deque>
#include <mutex>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail::cuda {

/// Any thread may ask; one at a time measures.
class Stopwatch {
 public:
  Stopwatch() = default;
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// The time from here to stop(), in the order of `stream`.
  void start(Stream& stream);
  void stop(Stream& stream);
  /// Of all measurements whose end the device has passed.
  double seconds();

 private:
  struct Span {
    NativeEvent begin;
    NativeEvent end;
  };

  NativeEvent take(Device device);
  void record(Stream& stream, NativeEvent event) const;
  void collect();

  std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;
  std::vector<NativeEvent> free_;
  std::deque<Span> spans_;
  NativeEvent begun_ = nullptr;
  double seconds_ = 0;
};

}  // namespace weft::detail::cuda
