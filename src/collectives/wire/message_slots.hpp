#pragma once
// The messages of one exchange that are under way, as a transport's callbacks reach them. Used while the wire is entered.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "collectives/wire/wire.hpp"

namespace weft::detail {

class MessageSlots;
class Peers;

/// A message under way. Does not move.
struct MessageSlot {
  MessageSlots* all = nullptr;
  std::size_t label = 0;
  std::size_t bytes = 0;
  int peer = 0;           ///< of the world
  int steps = 0;          ///< that are still to come; none: not under way
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

}  // namespace weft::detail
