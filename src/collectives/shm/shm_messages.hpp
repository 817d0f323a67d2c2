#pragma once
// Which message of a node's channels goes to which receive, as the receiving rank knows it; and who is in the middle of a message.
//
// A channel carries whole messages one after the other. The one at its head goes to the receive that waits for its source and tag. One
// that no receive waits for stays in the channel, and its sender waits, until a receive wants another message of that sender. Then it is
// put aside, which takes memory of its size and a copy more, and the next comes to the head. What was put aside is older than what is in
// the channel, so receives look there first. The segment's lock guards all of it.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "collectives/backend/transfers.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {

/// A message that no receive waited for.
struct SetAside {
  std::uint32_t tag = 0;
  std::int64_t count = 0;
  DataType dtype = DataType::u8;
  Buffer data;
  std::size_t arrived = 0;  ///< bytes of it
};

class ShmMessages {
 public:
  /// From one sender.
  struct Inbox {
    const void* reader = nullptr;   ///< the receive that has the head of its message, and not its end
    bool is_setting_aside = false;  ///< the newest of these has not arrived whole
    std::deque<SetAside> aside{};
  };

  explicit ShmMessages(int size)
      : inboxes_(static_cast<std::size_t>(size)), writers_(static_cast<std::size_t>(size)) {}

  Inbox& inbox(int from) { return inboxes_[static_cast<std::size_t>(from)]; }
  /// The send that has posted the head of its message to a rank, and not its end.
  const void*& writer(int to) { return writers_[static_cast<std::size_t>(to)]; }

  /// A receive waits, until forget(). @param from a rank or any_source
  void expect(int from, std::uint32_t tag) { expected_.push_back({from, tag}); }
  void forget(int from, std::uint32_t tag) {
    const auto found = std::ranges::find(expected_, Expected{from, tag});
    if (found != expected_.end()) expected_.erase(found);
  }
  /// Whether a receive waits for such a message.
  bool is_expected(int from, std::uint32_t tag) const {
    return std::ranges::any_of(expected_, [&](const Expected& one) {
      return one.tag == tag && (one.from == from || one.from == any_source);
    });
  }

 private:
  struct Expected {
    int from;
    std::uint32_t tag;
    friend bool operator==(const Expected&, const Expected&) = default;
  };
  std::vector<Inbox> inboxes_;
  std::vector<const void*> writers_;
  std::vector<Expected> expected_;
};

}  // namespace weft::detail
