#pragma once
// Looks after an operation that waits, where ranks cannot see each other: says on the side channel what this
// rank waits in, and compares that with what the others say. The data's path never waits for it.

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "collectives/diagnosis/operation_log.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  Watchdog(SideChannel& side_channel, const OperationLog& log, int rank)
      : side_channel_(side_channel), log_(log), rank_(rank) {}

  /// From operations that wait, as often as they like. @param mine what waits; none for a send/receive group
  /// @throws Error (mismatch) naming two ranks and what each issued, (peer_lost) naming a rank that gave up
  void look(const std::optional<Operation>& mine, Clock::time_point since);
  /// Now. @throws Error (peer_lost, mismatch) naming a rank that gave up, if one has said so
  void hear();
  void give_up(const Error& error) noexcept;
  /// "rank 1": who has not said that it waits in this operation or a later one, while this rank has. Empty
  /// before the others have had the time to say so.
  std::string late(std::uint64_t number, int ranks, Clock::time_point since);

 private:
  /// What another rank waits in.
  void compare(int rank, const Operation& theirs) const;
  void read(const SideChannel::Message& message);

  SideChannel& side_channel_;
  const OperationLog& log_;
  const int rank_;
  std::atomic<Clock::rep> next_look_{0};
  std::mutex mutex_;
  std::uint64_t posted_ = 0;            // number of the operation that the others know of
  std::map<int, Operation> waiting_{};  // by rank, what it last said
  bool has_given_up_ = false;
};

}  // namespace weft::detail
