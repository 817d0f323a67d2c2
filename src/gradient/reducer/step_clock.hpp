#pragma once
// When the buckets of the last steps were ready, reduced and waited for on this rank, on the host's clock. Where
// streams are of a device its times come late (cuda::DeviceClock), and are all there before an account.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/core/recycled.hpp"
#include "weft/gradient/step_account.hpp"

namespace weft::detail {

class StepClock {
 public:
  using Clock = std::chrono::steady_clock;

  struct Bucket {
    Clock::time_point ready;
    Clock::time_point ended;
    Clock::time_point wait_begin;
    Clock::time_point wait_end;
    Clock::time_point begun;
  };
  /// Threads of several streams write to it, each its own part. It is read when all of them have.
  struct Step {
    std::uint64_t number = 0;
    Clock::time_point begin;
    std::atomic<std::int64_t> carried_nanoseconds{0};
    RecycledVector<Bucket> buckets;

    /// Adds time in which the compute stream's thread carried the wire, or waited for a place to write to.
    void carried(Clock::duration duration) {
      carried_nanoseconds += std::chrono::nanoseconds(duration).count();
    }
  };

  /// Forgets all steps: their buckets were others.
  void adopt(std::size_t buckets);
  /// Begins a step whose gradients are exchanged.
  void begin_step(std::uint64_t number);
  /// A step outside the ring, to which times may be written that no account is to have.
  std::shared_ptr<Step> unaccounted() const;
  const std::shared_ptr<Step>& step() const { return steps_[begun_ % steps_.size()]; }
  /// The last `count` steps, oldest first. @param count at most kept()
  const Step& before(std::size_t count) const {
    return *steps_[(begun_ + steps_.size() - count) % steps_.size()];
  }
  std::size_t kept() const { return std::min(fresh_, steps_.size() - 1); }
  /// The median time between the beginnings of two steps; none before the eighth.
  std::optional<Clock::duration> median_step() const;
  void forget() { fresh_ = 0; }

 private:
  // A ring. Where streams may still write to a step when its turn comes again, a new one takes its place.
  std::array<std::shared_ptr<Step>, 128> steps_{};
  std::size_t buckets_ = 0;
  std::size_t begun_ = 0;
  std::size_t fresh_ = 0;  // steps since adopt() or forget(), the one under way included
};

/// The accounts of the steps that are kept, the same steps on every rank, which are then forgotten.
/// Collective; blocks. @param is_inline whether this rank's compute stream carries the wire
StepHistory account(StepClock& clock, const Communicator& comm, bool in_order, bool is_inline);

}  // namespace weft::detail
