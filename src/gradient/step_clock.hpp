#pragma once
// When the last steps' buckets were ready, there, and waited for, on this rank. On the host: of a device's
// streams the host's clock says nothing.

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
  };
  /// Written by the threads of the streams that get there, each its own part; read when all have.
  struct Step {
    std::uint64_t number = 0;
    Clock::time_point begin;
    std::atomic<std::int64_t> carried_nanoseconds{0};
    RecycledVector<Bucket> buckets;

    /// The compute stream's thread carried the wire, or waited for a place to write to.
    void carried(Clock::duration duration) {
      carried_nanoseconds += std::chrono::nanoseconds(duration).count();
    }
  };

  /// Steps of other buckets are forgotten.
  void adopt(std::size_t buckets);
  /// A step whose gradients are exchanged.
  void begin_step(std::uint64_t number);
  /// For a step that is not to be accounted for.
  std::shared_ptr<Step> aside() const;
  const std::shared_ptr<Step>& step() const { return steps_[begun_ % steps_.size()]; }
  /// The last `count` steps, oldest first. @param count at most kept()
  const Step& before(std::size_t count) const {
    return *steps_[(begun_ + steps_.size() - count) % steps_.size()];
  }
  std::size_t kept() const { return std::min(fresh_, steps_.size() - 1); }
  /// Between the beginnings of two steps; none where there were few.
  std::optional<Clock::duration> median_step() const;
  void forget() { fresh_ = 0; }

 private:
  // A step that streams may still write to is left to them.
  std::array<std::shared_ptr<Step>, 128> steps_{};
  std::size_t buckets_ = 0;
  std::size_t begun_ = 0;
  std::size_t fresh_ = 0;  // steps since adopt() or forget(), the one under way included
};

/// Of the steps that all ranks have kept. Collective; blocks.
StepHistory account(StepClock& clock, const Communicator& comm, bool in_order);

}  // namespace weft::detail
