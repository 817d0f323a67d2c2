#pragma once
// All ranks of a world as a transport without groups of its own reaches them, and the wires of groups of them.
//
// A transport offers messages with a tag of 64 bits, in which a group's number tells its messages from another's, and notes. It is
// called by one thread at a time, which holds enter(). A rank that is lost stays so.

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

#include "collectives/network/engine/wire.hpp"

namespace weft::detail {

// 64 bits of a tag: group, sender, tag of the exchange.
inline constexpr int tag_bits = 28;
inline constexpr int rank_bits = 16;

constexpr std::uint64_t whole_tag(std::uint32_t group, int sender, int tag) {
  return (std::uint64_t{group} << rank_bits | static_cast<std::uint32_t>(sender)) << tag_bits |
         static_cast<std::uint32_t>(tag);
}

class MessageSlots;
class Peers;

/// A message of an exchange that is under way, as the transport's callbacks reach it. Does not move.
struct MessageSlot {
  MessageSlots* all = nullptr;
  std::size_t label = 0;
  std::size_t bytes = 0;
  int peer = 0;           ///< of the world
  int steps = 0;          ///< that are still to come; none: not under way
  bool is_read = false;   ///< its data, by the transport, which sends it
  bool is_part = false;   ///< its receiver acknowledges it,
  std::uint64_t tag = 0;  ///< by this tag
  Peers* transport = nullptr;
  void* request = nullptr;  ///< the transport's, of one that is to be received
};

class MessageSlots {
 public:
  MessageSlot& take(std::size_t label, std::size_t bytes, int peer, int steps) {
    if (unused_.empty()) unused_.push_back(&slots_.emplace_back());
    MessageSlot& taken = *unused_.back();
    unused_.pop_back();
    taken = {.all = this, .label = label, .bytes = bytes, .peer = peer, .steps = steps};
    return taken;
  }
  /// One step of it is done.
  static void step(MessageSlot& slot) {
    if (--slot.steps == 0) slot.all->end(slot, {.label = slot.label, .bytes = slot.bytes});
  }
  void end(MessageSlot& slot, const Messages::Ended& how) {
    ended_.push_back(how);
    slot.steps = 0;
    slot.request = nullptr;
    unused_.push_back(&slot);
  }
  /// Those that have ended since the last time.
  void take_ended(std::vector<Messages::Ended>& all) {
    all.clear();
    all.swap(ended_);
  }
  const std::deque<MessageSlot>& slots() const { return slots_; }

 private:
  std::deque<MessageSlot> slots_;
  std::vector<MessageSlot*> unused_;
  std::vector<Messages::Ended> ended_;
};

/// Some of the ranks of a world.
struct Group {
  std::shared_ptr<Peers> all;
  std::uint32_t number = 0;
  int rank = 0;
  std::vector<int> ranks{};  ///< of the world, by rank

  int in_world(int one) const { return ranks[static_cast<std::size_t>(one)]; }
};

class Peers {
 public:
  Peers(int rank, int size) : rank_(rank), has_left_(static_cast<std::size_t>(size)) {}
  virtual ~Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// "UCX"
  virtual std::string name() const = 0;
  std::unique_lock<std::mutex> enter() { return std::unique_lock(mutex_); }
  /// Whether a look is a matter of nanoseconds, as over RDMA, and not of system calls.
  virtual bool looks_are_cheap() const { return false; }
  /// Not entered: returns when something has come, after `at_most` at the latest.
  virtual void rest(std::chrono::microseconds at_most) = 0;
  /// Any thread: this rank takes part no longer, by an error.
  void give_up() noexcept { has_given_up_ = true; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(has_left_.size()); }

  // The rest is called while entered.
  virtual void progress() = 0;
  /// How many ranks are lost, and why one is; empty: it is not.
  virtual int losses() const = 0;
  virtual const std::string& lost(int rank) const = 0;
  /// Ends a step of the slot when the data may be written again.
  virtual void send(std::span<const std::byte> data, std::uint64_t tag, MessageSlot& slot) = 0;
  /// Ends the slot when the next message of its peer with the tag is there; acknowledges it, if it is a part.
  virtual void receive(std::span<std::byte> data, std::uint64_t tag, MessageSlot& slot) = 0;
  /// A message under way touches its data no longer, where the transport can still stop that.
  virtual void cancel(const MessageSlot& slot) = 0;
  /// None of those that were canceled touches its data when this returns. It may wait for a moment, and break off what does not end.
  virtual void settle(const MessageSlots& /*canceled*/) noexcept {}
  /// Whether it has said goodbye.
  bool has_left(int rank) const { return has_left_[static_cast<std::size_t>(rank)]; }
  /// Does not wait. A rank that is lost gets none.
  virtual void send_note(std::uint32_t group, int to, const std::shared_ptr<const std::string>& body) = 0;
  /// What has come for the group; ranks are of the world.
  std::deque<SideChannel::Message> take_notes(std::uint32_t group);
  /// The next acknowledgement of the peer with the tag is a step of the slot.
  void await(std::uint64_t tag, MessageSlot& slot) { unacknowledged_.emplace(tag, &slot); }
  /// Until the transport has ended.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }

  /// A number for a group of ranks that none of its ranks has used yet. Collective over `rendezvous`; not entered.
  std::uint32_t new_group(Rendezvous& rendezvous, Deadline deadline);

 protected:
  void keep_note(std::uint32_t group, SideChannel::Message note);
  void acknowledged(std::uint64_t tag);
  bool has_given_up() const { return has_given_up_; }
  /// Until the descriptor is readable, at most so long.
  static void rest_on(int fd, std::chrono::microseconds at_most);
  /// At the transport's end, entered: waits for up to two seconds until the others have said goodbye, for a connection that is closed while
  /// data is on its way in takes what is on its way out with it. After give_up(), and while an exception unwinds, a moment only.
  void leave() noexcept;

 private:
  const int rank_;
  std::vector<bool> has_left_;
  std::mutex mutex_;
  std::atomic<bool> has_given_up_ = false;
  std::uint32_t next_group_ = 0;
  std::map<std::uint32_t, std::deque<SideChannel::Message>> notes_;
  std::unordered_multimap<std::uint64_t, MessageSlot*> unacknowledged_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// The wire of all of them. Collective over `rendezvous`, which is the world's.
/// @param timeout for later groups to meet. @throws Error (usage) for more ranks than a tag tells apart
std::shared_ptr<Wire> make_group_wire(const std::shared_ptr<Peers>& all, Rendezvous& rendezvous,
                                      Deadline deadline, std::chrono::nanoseconds timeout);

}  // namespace weft::detail
