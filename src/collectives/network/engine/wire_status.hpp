#pragma once
// How far the ranks of other nodes are with their devices' operations: each says so, on the side channel, now and then. Nothing is sent when
// an operation is issued; a watchdog's thread calls tell().
//
// A rank says where it is: at once when nothing moves for a quarter of a second, else every second (every ten milliseconds for each rank, where
// they are more than a hundred: then it sends and gets a hundred messages a second, however many they are; half as often where that would be a
// twentieth of its time), and when its device falls idle. One that has issued nothing says nothing. With it goes a hash of all operations
// up to there, so that ranks whose operations differ hear of it even where NCCL did not hang. Of each rank less than 200 bytes are kept.
//
// Who is gone is heard from the transport (a connection that is closed), from the rank itself (it has left, or failed and why), or from
// others that failed because of it; what came first is told.

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

class GroupWire;

class WirePeerStatus final : public PeerStatus {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param are_seen ranks that are watched otherwise, this one among them. Channel and wire live longer
  WirePeerStatus(SideChannel& channel, GroupWire& wire, std::vector<bool> are_seen);
  /// Says goodbye.
  ~WirePeerStatus() override;

  void issued(const Operation& operation) override;
  void compare(const Operation& operation) const override;
  std::string behind(std::uint64_t number) const override;
  std::optional<Error> lost(std::uint64_t number) const override;
  bool needs_telling() const override { return true; }
  void tell(bool is_active) override { tell(is_active, Clock::now()); }
  void tell(bool is_active, Clock::time_point now);
  void give_up(const Error& error) noexcept;

 private:
  /// An operation and all before it.
  struct Issued {
    Operation operation{};
    std::uint64_t history = 0;
  };
  /// What another rank has said.
  struct Peer {
    std::uint64_t number = 0;
    bool is_active = false;
    bool has_left = false;
    std::optional<Issued> said{};  ///< until it is compared
    Clock::time_point heard{};
  };
  static_assert(sizeof(Peer) < 200);
  struct Loss {
    int rank;
    std::uint64_t number;  ///< to which it came
    bool has_left;
    Error error;
  };

  void hear(const SideChannel::Message& message, Clock::time_point now);
  void lose(int rank, Error error);
  void compare_what_was_said(int rank, Peer& peer);
  bool is_time_to_say(bool is_active, Clock::time_point now);
  std::string word() const;
  const Issued* find(std::uint64_t number) const;
  void say(const std::string& message);

  SideChannel& channel_;
  GroupWire& wire_;
  const int rank_;
  const std::vector<bool> are_seen_;
  const std::chrono::nanoseconds least_between_;
  mutable std::mutex mutex_;          // of what follows; never held while a message is sent
  std::chrono::nanoseconds between_;  // two words of an active rank, as this one has time for them
  std::vector<Issued> issued_;        // the newest, by number
  std::uint64_t last_ = 0;
  std::vector<Peer> peers_;
  std::vector<Loss> losses_;  // in the order in which they were heard of
  std::optional<Error> disagreement_;
  std::uint64_t said_ = 0;
  bool said_active_ = false;
  std::optional<Clock::time_point> said_at_;
  std::uint64_t seen_ = 0;      // last_ at the look before
  std::uint64_t compared_ = 0;  // and when what was said was compared
  Clock::time_point moved_{};
  bool is_used_ = false;
  bool has_given_up_ = false;
};

}  // namespace weft::detail
