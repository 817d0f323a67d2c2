#pragma once
// Where the time of a step's communication went, by one definition on every rank.
//
// "Exposed" is what the compute stream waited; "the link is busy" while at least one bucket is on its way
// that every rank has brought. A bucket that some rank has not brought keeps nobody's link busy: that time is
// the slowest rank's. So overlap is not the time from the first bucket to the last, as elsewhere, and an idle
// link never counts as overlap. Times of other ranks are seen on one clock (weft/collectives/clock.hpp).

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weft {

struct StepAccount {
  std::uint64_t step = 0;      ///< as the reducer counts them, micro-steps included
  double seconds = 0;          ///< from begin_step to when the compute stream had its last bucket
  double exposed_seconds = 0;  ///< of these, the compute stream waited, or carried the wire itself
  double link_seconds = 0;     ///< the link was busy
  double overlap_seconds = 0;  ///< of these, the compute stream did not wait
  double slowest_seconds =
      0;  ///< of the exposed ones, it waited for a bucket that another rank had not brought
  std::optional<int> slowest{};  ///< the rank that most of that was for
};

/// What one rank saw of a bucket, and of a step; seconds on a clock that all ranks share.
struct BucketSeen {
  double ready = 0;       ///< its last gradient was there
  double ended = 0;       ///< the mean was there
  double wait_begin = 0;  ///< the compute stream came to wait for it
  double wait_end = 0;
};
struct StepSeen {
  std::uint64_t step = 0;
  double begin = 0;
  double carried = 0;  ///< seconds that the compute stream's thread spent on an inline wire while it computed
  std::vector<BucketSeen> buckets{};  ///< in plan order
};

struct StepHistory {
  std::vector<StepAccount> steps{};  ///< of this rank, oldest first
  std::vector<StepSeen> last{};      ///< the newest of them as every rank saw it, by rank
  bool in_order = true;  ///< whether one bucket leaves after the other; else each as soon as it is ready
};

/// A rank's account of one step. Pure. @param ranks the step as every rank saw it, by rank
StepAccount account_of(int rank, std::span<const StepSeen> ranks, bool in_order);

}  // namespace weft
