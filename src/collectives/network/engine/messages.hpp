#pragma once
// Messages between ranks of a group, over any transport (Peers), and what the transport knows of each.
//
// Messages from one rank to another with one tag arrive in the order in which they were sent. A message uses the memory it was posted
// with until it has ended. Nothing blocks.
//
//   const auto messages = wire.messages();
//   const auto entered = wire.enter();
//   messages->receive(0, arrival, peer, tag, is_part);
//   for (const Messages::Ended& one : messages->collect()) ...
//
// WRONG: to free `arrival` before its message has ended: abandon() it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/recycled.hpp"

namespace weft::detail {

// A transport's tags have 64 bits: group, rank, tag of the exchange.
inline constexpr int tag_bits = 28;
inline constexpr int rank_bits = 16;

/// @param rank its sender's; of an acknowledgement that of whoever received the message
constexpr std::uint64_t whole_tag(std::uint32_t group, int rank, int tag) {
  return (std::uint64_t{group} << rank_bits | static_cast<std::uint32_t>(rank)) << tag_bits |
         static_cast<std::uint32_t>(tag);
}
constexpr int tag_of_exchange(std::uint64_t whole) {
  return static_cast<int>(whole & ((std::uint64_t{1} << tag_bits) - 1));
}

class Messages;
class Peers;

/// Some of the ranks of a world.
struct RankGroup {
  std::shared_ptr<Peers> all{};
  int rank = 0;
  std::vector<int> ranks{};  ///< as the transport calls them, by rank
  // Peers::begin_group() sets these:
  std::uint32_t number = 0;
  int largest_tag = (1 << tag_bits) - 1;
  std::shared_ptr<void> own{};  ///< what else the transport needs for its messages

  int in_transport(int one) const { return ranks[static_cast<std::size_t>(one)]; }
};

/// A message that is under way, as the transport's callbacks reach it. Does not move.
struct MessageSlot {
  Messages* all = nullptr;
  std::size_t label = 0;
  std::size_t bytes = 0;
  int peer = 0;           ///< as the transport calls it
  int steps = 0;          ///< that are still to come; none: not under way
  bool is_read = false;   ///< its data, by the transport, which sends it
  bool is_part = false;   ///< its receiver acknowledges it,
  std::uint64_t tag = 0;  ///< by this tag
  Peers* transport = nullptr;
  void* request = nullptr;  ///< the transport's, of one that is to be received
};

/// Those of one exchange that are under way, each with a label of the caller's. Used while the wire is entered, but for abandon().
class Messages : public std::enable_shared_from_this<Messages> {
 public:
  /// @param of lives as long as they are used, and need not when they are abandoned
  explicit Messages(const RankGroup& of) : group(of) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// @param is_part of more than may be under way: it ends no sooner than its receiver has begun to receive it
  void send(std::size_t label, std::span<const std::byte> data, int peer, int tag, bool is_part);
  /// @param is_part as its sender says
  void receive(std::size_t label, std::span<std::byte> data, int peer, int tag, bool is_part);

  struct Ended {
    std::size_t label = 0;
    std::size_t bytes = 0;    ///< sent, or received
    bool was_longer = false;  ///< a received one than there was room for
    std::string lost{};       ///< why its peer is gone; empty: it is not
  };
  /// Those that have ended since the last time, in any order; valid until the next call.
  std::span<const Ended> collect();
  /// Any thread, not entered. They will not be collected any more: `memory`, in which they are, lives until the transport is done with it.
  void abandon(std::shared_ptr<void> memory) noexcept;

  // For the transport:
  /// One step of it is done.
  static void step(MessageSlot& slot) {
    if (--slot.steps == 0) slot.all->end(slot, {.label = slot.label, .bytes = slot.bytes});
  }
  void end(MessageSlot& slot, const Ended& how) {
    ended_.push_back(how);
    slot.steps = 0;
    slot.request = nullptr;
    unused_.push_back(&slot);
  }
  const RecycledDeque<MessageSlot>& slots() const { return slots_; }
  const RankGroup& group;
  std::shared_ptr<void> own{};  ///< what it keeps of them, if it looks after each exchange by itself

 private:
  MessageSlot& take(std::size_t label, std::size_t bytes, int peer, bool is_part);

  RecycledDeque<MessageSlot> slots_;
  RecycledVector<MessageSlot*> unused_;
  RecycledVector<Ended> ended_;
  RecycledVector<Ended> collected_;
};

}  // namespace weft::detail
