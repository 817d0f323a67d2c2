#pragma once
// The streams that carry buckets, and the time that compute streams have waited for them.
//
// A stream with its own thread, or the stream that the trainer gave, carries buckets one after the other. If
// the compute thread has to carry them, each bucket gets a stream (a lane), up to 32. A bucket can then be
// posted while earlier buckets still wait for a late rank, and one poll() progresses all of them.

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "core/cuda/timing.hpp"
#include "gradient/reducer/step_clock.hpp"

namespace weft::detail {

class Wire {
 public:
  using Clock = StepClock::Clock;

  Wire(const Communicator& comm, const std::optional<Stream>& given) : is_given_(given.has_value()) {
    lanes_.push_back(given ? *given : comm.progress_stream());
  }
  /// Adds lanes for this many buckets, if the compute thread carries them.
  void serve(std::size_t buckets) {
    if (is_given_ || !is_inline()) return;
    while (lanes_.size() < std::min(buckets, most_lanes)) lanes_.emplace_back();
  }

  const Stream& lane(std::size_t bucket) const { return lanes_[bucket % lanes_.size()]; }
  bool is_inline() const { return lanes_.front().is_inline(); }
  /// Whether buckets go one after the other.
  bool in_order() const { return lanes_.size() == 1; }
  void poll() {
    for (Stream& lane : lanes_) lane.poll();
  }
  /// To be called before the memory of buckets goes. The wire's own streams are destroyed, which finishes
  /// their work, or drops it while an exception is unwinding. A stream that was given may live on: its work
  /// is waited for.
  void close() noexcept {
    if (!is_given_) return lanes_.clear();
    if (std::uncaught_exceptions() > 0) return;
    try {
      synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the next wait for the stream reports it
    }
  }
  void synchronize() {
    for (Stream& lane : lanes_) lane.synchronize();
  }

  /// Adds time that a compute stream of the host waited for communication.
  void add_exposed(Clock::duration waited) {
    exposed_nanoseconds_ += std::chrono::nanoseconds(waited).count();
  }
  /// The exposed time of all compute streams so far.
  double exposed_seconds() {
    return static_cast<double>(exposed_nanoseconds_.load()) * 1e-9 + on_device_.seconds();
  }
  /// Measures the same on compute streams of a device.
  cuda::Stopwatch& on_device() { return on_device_; }

 private:
  static constexpr std::size_t most_lanes = 32;

  bool is_given_;
  std::vector<Stream> lanes_;
  std::atomic<std::int64_t> exposed_nanoseconds_{0};  // written by the stream's thread, read by the host
  cuda::Stopwatch on_device_;
};

/// Waits for a bucket on a compute stream of the host, and adds the time to the wire's exposed time.
/// @tparam Waited called with the begin and the end of the wait
template <class Waited>
class WaitForBucket final : public Task {
 public:
  WaitForBucket(Event reduced, std::shared_ptr<Wire> wire, Waited waited)
      : reduced_(std::move(reduced)), wire_(std::move(wire)), waited_(std::move(waited)) {}
  bool advance() override {
    if (!begin_) begin_ = Wire::Clock::now();
    wire_->poll();  // all lanes: another rank may wait for this one's part of a later bucket
    if (!reduced_.done()) return false;
    const auto end = Wire::Clock::now();
    wire_->add_exposed(end - *begin_);
    waited_(*begin_, end);
    if (const auto error = reduced_.error()) std::rethrow_exception(error);
    return true;
  }
  void rest(std::chrono::microseconds at_most) override { reduced_.rest(at_most); }

 private:
  Event reduced_;
  std::shared_ptr<Wire> wire_;
  Waited waited_;
  std::optional<Wire::Clock::time_point> begin_;
};

}  // namespace weft::detail
