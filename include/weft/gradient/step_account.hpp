#pragma once
// Where the time of a step's communication went, by one definition on every rank.
//
// "Exposed" is the time that the compute stream waited. "The link is busy" while at least one bucket is on
// its way whose gradients are ready on all ranks. Time in which a bucket still misses a rank's gradients
// counts for that slow rank and not for the link. So overlap is not the time from the first bucket to the
// last, as in other libraries, and an idle link never counts as overlap. With an inline wire, which the compute stream's
// thread carries, bytes move while it carries and waits: a bucket that is posted and not polled keeps no link busy. All times are on one clock
// (weft/collectives/clock.hpp).

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weft {

struct StepAccount {
  std::uint64_t step = 0;      ///< the reducer's number of the step; micro-steps count, too
  double seconds = 0;          ///< from begin_step to when the compute stream had its last bucket
  double exposed_seconds = 0;  ///< of `seconds`, the compute stream waited, or carried the wire itself
  double link_seconds = 0;     ///< the link was busy
  double overlap_seconds = 0;  ///< of `link_seconds`, the compute stream did not wait; 0 with an inline wire
  double slowest_seconds = 0;  ///< of `exposed_seconds`, it waited for gradients of another rank
  std::optional<int> slowest{};  ///< the rank that most of `slowest_seconds` was for
  double skew_seconds =
      0;  ///< between the first and the last rank to have a bucket ready: of all, the longest
  double late_seconds = 0;  ///< how much later than all others this rank had a bucket ready: the longest
};

/// The times of a bucket, and of a step, on one rank; seconds on a clock that all ranks share.
struct BucketSeen {
  double ready = 0;       ///< its last gradient was ready
  double ended = 0;       ///< its mean was there
  double wait_begin = 0;  ///< the compute stream began to wait for it
  double wait_end = 0;
  double begun = 0;  ///< the wire took it up; a thread does so some time after `ready`
};
struct StepSeen {
  std::uint64_t step = 0;
  double begin = 0;
  double carried = 0;  ///< seconds that the compute stream's thread spent on an inline wire while it computed
  std::vector<BucketSeen> buckets{};  ///< in plan order
  bool is_inline = false;             ///< whether the compute stream's thread carries the wire
};

struct StepHistory {
  std::vector<StepAccount> steps{};  ///< this rank's, oldest first
  std::vector<StepSeen> last{};      ///< the times of the newest of them, by rank
  bool in_order = true;  ///< whether buckets go one after the other; else each goes as soon as it is ready
};

/// A rank's account of one step: a pure function. @param ranks the times of the step, by rank
StepAccount account_of(int rank, std::span<const StepSeen> ranks, bool in_order);

}  // namespace weft
