#pragma once
// When waiting for other ranks has become an error.

#include <chrono>
#include <optional>

#include "weft/core/deadline.hpp"

namespace weft::detail {

/// Decides when waiting has become an error: a lost peer at the next look (about every 5 ms), anybody at the
/// deadline. Asks no clock before it has been polled a few times.
class Patience {
 public:
  explicit Patience(std::chrono::nanoseconds timeout) : timeout_(timeout) {}
  /// True when it is time to look whether everybody waited for is alive. Cheap enough for every poll.
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

}  // namespace weft::detail
