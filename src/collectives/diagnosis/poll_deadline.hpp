#pragma once
// When waiting for other ranks has become an error.

#include <chrono>
#include <optional>

#include "weft/core/deadline.hpp"

namespace weft::detail {

/// Decides when waiting has become an error: a lost peer at the next look (about every 5 ms), any other at
/// the deadline. Asks no clock before it has been polled a few times.
class PollDeadline {
 public:
  explicit PollDeadline(std::chrono::nanoseconds timeout) : timeout_(timeout) {}
  /// True when it is time to look whether all ranks waited for are alive. Cheap enough for every poll.
  bool time_to_look();
  /// Time has passed without a poll: the next one asks the clock.
  void rested() { polls_ = -1; }
  bool exhausted() const { return deadline_ && deadline_->passed(); }
  double waited_seconds() const { return deadline_ ? deadline_->waited_seconds() : 0; }

 private:
  std::chrono::nanoseconds timeout_;
  std::optional<Deadline> deadline_{};
  Deadline::Clock::time_point next_look_{};
  int polls_ = 0;
};

inline bool PollDeadline::time_to_look() {
  if (++polls_ % 64 != 0) return false;
  const auto now = Deadline::Clock::now();
  if (!deadline_) deadline_ = Deadline::in(timeout_);
  if (now < next_look_) return false;
  next_look_ = now + std::chrono::milliseconds(5);
  return true;
}

}  // namespace weft::detail
