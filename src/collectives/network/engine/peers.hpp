#pragma once
// What a transport offers: messages and short notes between all ranks of a world. The one virtual interface between a plan and the network.
//
// A message belongs to a group of ranks. Its tag has 64 bits, in which the group's number tells its messages from another's. A transport that
// tells groups apart by other means says so in begin_group(). A transport is called by one thread at a time, which holds enter(), and does not
// block. A rank that is lost stays so.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "collectives/network/engine/messages.hpp"

namespace weft::detail {

class Peers {
 public:
  /// @param guard what is locked whenever it is entered, where others call the transport's library too; lives longer
  Peers(int rank, int size, std::mutex* guard = nullptr)
      : rank_(rank),
        has_left_(static_cast<std::size_t>(size)),
        lost_(has_left_.size()),
        mutex_(guard != nullptr ? *guard : own_mutex_) {}
  virtual ~Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// "UCX"
  virtual std::string name() const = 0;
  /// Whether any thread may call, one at a time; otherwise calls throw Error (usage) on a thread that may not.
  virtual bool any_thread() const { return true; }
  std::unique_lock<std::mutex> enter() { return std::unique_lock(mutex_); }
  /// Whether a look is a matter of nanoseconds, as over RDMA, or gives way by itself, and is not one of system calls.
  virtual bool looks_are_cheap() const { return false; }
  /// Not entered: returns when something has come, after `at_most` at the latest.
  virtual void rest(std::chrono::microseconds at_most) = 0;
  /// Any thread: this rank takes part no longer, by an error.
  virtual void give_up() noexcept { has_given_up_ = true; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(has_left_.size()); }

  /// Makes the group one whose messages are told from those of all others: here by a number that none of its ranks has used yet. Collective over
  /// `rendezvous`, where they meet; not entered. @throws Error (usage) for more groups, or ranks, than a tag tells apart
  virtual void begin_group(RankGroup& group, const std::shared_ptr<Rendezvous>& rendezvous,
                           Deadline deadline);
  /// The transport's own way to carry out a collective, which Algorithm::mpi asks for. Not entered.
  virtual std::unique_ptr<Task> own_collective(const RankGroup& group, const Operation& operation,
                                               std::chrono::nanoseconds timeout);

  // The rest is called while entered.
  /// Takes what has come, at least for the messages of `whose`; null: notes alone are waited for.
  virtual void progress(Messages* whose) = 0;
  /// How many ranks are lost, and why one is; empty: it is not.
  int losses() const { return losses_; }
  const std::string& lost(int rank) const { return lost_[static_cast<std::size_t>(rank)]; }
  /// Ends a step of the slot when the data may be written again; awaits its acknowledgement, if it is a part.
  virtual void send(std::span<const std::byte> data, std::uint64_t tag, MessageSlot& slot) = 0;
  /// Ends the slot when the next message of its peer with the tag is there; acknowledges it, if it is a part.
  virtual void receive(std::span<std::byte> data, std::uint64_t tag, MessageSlot& slot) = 0;
  /// A message under way touches its data no longer, where the transport can still stop that.
  virtual void cancel(const MessageSlot& slot) = 0;
  /// None of those that were canceled touches its data when this returns. It may wait for a moment, and break off what does not end.
  virtual void settle(const Messages& /*canceled*/) noexcept {}
  /// Until nothing touches the memory of messages that were canceled: until the transport has ended.
  virtual void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  /// Whether it has said goodbye: it ended without an error.
  bool has_left(int rank) const { return has_left_[static_cast<std::size_t>(rank)]; }
  /// Does not wait. A rank that is lost gets none.
  virtual void send_note(const RankGroup& group, int to, const std::shared_ptr<const std::string>& body) = 0;
  /// What has come for the group, by ranks as the transport calls them.
  virtual std::deque<SideChannel::Message> take_notes(const RankGroup& group);

 protected:
  /// Its messages end with that, where they are collected. What was said first holds.
  void lose(int rank, const std::string& why);
  /// Where ranks that meet call each other again. @returns why it was lost
  std::string find_again(int rank);
  /// The next acknowledgement of the peer with the slot's tag is a further step of it.
  void await(MessageSlot& slot);
  void acknowledged(std::uint64_t tag);
  void keep_note(std::uint32_t group, SideChannel::Message note);
  bool has_given_up() const { return has_given_up_; }
  /// Until the descriptor is readable, at most so long.
  static void rest_on(int fd, std::chrono::microseconds at_most);
  /// At the transport's end, entered: waits for up to two seconds until the others have said goodbye, for a connection that is closed while
  /// data is on its way in takes what is on its way out with it. After give_up(), and while an exception unwinds, a moment only.
  void leave() noexcept;

 private:
  struct Leaving {
    int rank;
    std::chrono::steady_clock::time_point gone;  ///< by then its connections are closed
  };
  void lose_who_is_gone();

  const int rank_;
  std::vector<bool> has_left_;
  std::vector<Leaving> leaving_{};
  std::vector<std::string> lost_;
  int losses_ = 0;
  std::mutex own_mutex_;
  std::mutex& mutex_;
  std::atomic<bool> has_given_up_ = false;
  std::uint32_t next_group_ = 0;
  std::map<std::uint32_t, std::deque<SideChannel::Message>> notes_;
  std::unordered_multimap<std::uint64_t, MessageSlot*> unacknowledged_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace weft::detail
