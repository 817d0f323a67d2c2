#pragma once
// Looks after an operation that waits, where ranks cannot see each other: says on the side channel what this
// rank waits in, and compares that with what the others say. The data's path never waits for it.
//
// A rank that waits says so after a quarter of a second, and then every second (every ten milliseconds for each rank, where they are more than
// a hundred). So at a deadline a rank knows which others wait as well, and which are silent.

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/diagnosis/operation_log.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  Watchdog(SideChannel& side_channel, const OperationLog& log, int rank, int ranks);

  /// From operations that wait, as often as they like. @param mine what waits; none for a send/receive group
  /// @throws Error (mismatch) naming two ranks and what each issued, (peer_lost) naming a rank that gave up
  void look(const std::optional<Operation>& mine, Clock::time_point since) {
    look(mine, since, Clock::now());
  }
  void look(const std::optional<Operation>& mine, Clock::time_point since, Clock::time_point now);
  /// Now. @throws Error (peer_lost, mismatch) naming a rank that gave up, if one has said so
  void hear();
  void give_up(const Error& error) noexcept;

  struct Late {
    std::vector<int> ranks;
    std::string names;  ///< "rank 1, rank 2 (not heard from for 5.1 s)"
  };
  /// Whom this rank waits for in the operation: those that do not say that they wait themselves; if all do, those that wait in an earlier
  /// operation. Empty before the others have had the time to say so.
  Late late(std::uint64_t number, Clock::time_point since) { return late(number, since, Clock::now()); }
  Late late(std::uint64_t number, Clock::time_point since, Clock::time_point now);
  /// The error of an operation whose deadline has passed, which names the ranks that it waited for. These may wait for others, beyond what this
  /// rank sees: then it names those instead.
  Error naming_late(const Error& error, std::uint64_t number, Clock::time_point since);

 private:
  /// What another rank has said last.
  struct Waiting {
    std::optional<Operation> operation{};  ///< none: a send/receive group
    Clock::time_point heard{};
  };

  /// What another rank waits in.
  void compare(int rank, const Operation& theirs) const;
  void read(const SideChannel::Message& message, Clock::time_point now);
  /// Reads what has come, for an operation that has waited since then.
  void listen(Clock::time_point since, Clock::time_point now);
  bool is_time_to_say(const std::optional<Operation>& mine, Clock::time_point now) const;

  SideChannel& side_channel_;
  const OperationLog& log_;
  const int rank_;
  const int ranks_;
  const std::chrono::nanoseconds say_every_;
  std::atomic<Clock::rep> next_look_{0};
  std::mutex mutex_;
  std::uint64_t posted_ = 0;  // number of the operation that the others know of
  Clock::time_point posted_at_{};
  Clock::time_point listened_at_{};
  std::map<int, Waiting> waiting_{};  // by rank
  bool has_given_up_ = false;
};

}  // namespace weft::detail
