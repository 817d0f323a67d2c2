#pragma once
// Sums the time between pairs of places in a stream, of the host or of a device. It waits for neither.

#include <atomic>
#include <chrono>
#include <memory>

#include "core/cuda/timing.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

/// One thread at a time measures; any thread may ask for the sum.
class StreamStopwatch {
 public:
  /// Begins a measurement at this place in `stream`; stop() ends it, on the same stream.
  void start(Stream& stream) {
    if (!stream.device().is_host()) return on_device_.start(stream);
    stream.run([on_host = on_host_] { on_host->begun = Clock::now(); });
  }
  void stop(Stream& stream) {
    if (!stream.device().is_host()) return on_device_.stop(stream);
    stream.run([on_host = on_host_] {
      on_host->nanoseconds += std::chrono::nanoseconds(Clock::now() - on_host->begun).count();
    });
  }
  /// The sum of the measurements whose end the streams have passed.
  double seconds() { return static_cast<double>(on_host_->nanoseconds.load()) * 1e-9 + on_device_.seconds(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct OnHost {
    Clock::time_point begun{};  // by the stream
    std::atomic<std::int64_t> nanoseconds{0};
  };
  std::shared_ptr<OnHost> on_host_ = std::make_shared<OnHost>();
  cuda::Stopwatch on_device_;
};

}  // namespace weft::detail
