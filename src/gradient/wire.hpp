#pragma once
// The streams that carry buckets, and the time that compute streams have lost to them.
//
// Buckets do not depend on each other. A stream with a thread of its own, or one that the trainer gave,
// carries them one after the other; but where the compute thread itself has to carry them, each gets a
// stream: then a bucket can be posted while those before it still wait for a rank that is late, and whoever
// looks in works off everything that others have posted.

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "core/cuda/stopwatch.hpp"
#include "gradient/step_clock.hpp"

namespace weft::detail {

class Wire {
 public:
  using Clock = StepClock::Clock;

  Wire(const Communicator& comm, const std::optional<Stream>& given) : is_given_(given.has_value()) {
    lanes_.push_back(given ? *given : comm.progress_stream());
  }
  void serve(std::size_t buckets) {
    if (is_given_ || !is_inline()) return;
    while (lanes_.size() < std::min(buckets, most_lanes)) lanes_.emplace_back();
  }

  const Stream& lane(std::size_t bucket) const { return lanes_[bucket % lanes_.size()]; }
  bool is_inline() const { return lanes_.front().is_inline(); }
  bool in_order() const { return lanes_.size() == 1; }
  void poll() {
    for (Stream& lane : lanes_) lane.poll();
  }
  /// Nothing uses what goes next any more. Own streams are let go, which finishes their work, or drops it
  /// while an exception is unwinding; one that was given may live on, so that its work is waited for.
  void close() noexcept {
    if (!is_given_) return lanes_.clear();
    if (std::uncaught_exceptions() > 0) return;
    try {
      synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): whoever waits for the stream hears of it
    }
  }
  void synchronize() {
    for (Stream& lane : lanes_) lane.synchronize();
  }

  void lost(Clock::duration waited) { lost_nanoseconds_ += std::chrono::nanoseconds(waited).count(); }
  double lost_seconds() {
    return static_cast<double>(lost_nanoseconds_.load()) * 1e-9 + on_device_.seconds();
  }
  cuda::Stopwatch& on_device() { return on_device_; }

 private:
  static constexpr std::size_t most_lanes = 32;

  bool is_given_;
  std::vector<Stream> lanes_;
  std::atomic<std::int64_t> lost_nanoseconds_{0};  // written by the stream's thread, read by the host
  cuda::Stopwatch on_device_;                      // the same of compute streams of a device
};

/// Waits for a bucket on a compute stream of the host and accounts for the time that took.
/// @tparam Waited called with its begin and end
template <class Waited>
class Join final : public Task {
 public:
  Join(Event reduced, std::shared_ptr<Wire> wire, Waited waited)
      : reduced_(std::move(reduced)), wire_(std::move(wire)), waited_(std::move(waited)) {}
  bool advance() override {
    if (!begin_) begin_ = Wire::Clock::now();
    wire_->poll();  // all of it: another rank may wait for this one's part of a later bucket
    if (!reduced_.done()) return false;
    const auto end = Wire::Clock::now();
    wire_->lost(end - *begin_);
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
