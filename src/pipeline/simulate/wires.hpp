#pragma once
// Messages of a simulated schedule. An activation or a gradient is sent when both sides have posted it and
// all earlier messages of its direction are sent; it occupies its wire, one message at a time, and arrives a
// latency later.

#include <queue>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

inline constexpr Nanoseconds unknown = -1;

enum class Direction { forward, backward };

/// The value of a microbatch that a stage consumes.
struct Value {
  Direction direction;
  int stage;  ///< the consumer
  int microbatch;
};

class Wires {
 public:
  Wires(const Schedule& schedule, const Problem& problem);

  /// Whether the schedule has entries that send. If not, every value is sent when it is computed.
  bool posted() const { return posted_; }
  /// Whether devices share wires, so that they must be simulated in the order of time.
  bool shared() const { return shared_; }
  /// Whether both stages are on one device.
  bool stays(const Value& value) const { return link_of(value).channel < 0; }

  /// A value that stays on its device arrives at once. Any other is sent, unless the schedule has an entry
  /// for that.
  void computed(const Value& value, Nanoseconds when);
  void post_send(const Value& value, Nanoseconds when);
  void post_receive(const Value& value, Nanoseconds when);

  Nanoseconds computed_at(const Value& value) const { return computed_[index(value)]; }
  Nanoseconds arrival(const Value& value) const { return arrival_[index(value)]; }
  /// When the sender's buffer is free again.
  Nanoseconds sent(const Value& value) const;

 private:
  struct Link {
    int channel = -1;  // the ordered pair of devices, or -1 within a device
    int wire = -1;
    Hop hop;
  };
  struct Channel {
    std::queue<Value> sends;  // that are posted and have not begun, in order
  };

  std::size_t index(const Value& value) const {
    return (static_cast<std::size_t>(value.stage) * 2 + (value.direction == Direction::backward ? 1 : 0)) *
               microbatches_ +
           static_cast<std::size_t>(value.microbatch);
  }
  const Link& link_of(const Value& value) const {
    const bool back = value.direction == Direction::backward;
    return links_[static_cast<std::size_t>(back ? value.stage : value.stage - 1) * 2 + (back ? 1 : 0)];
  }
  void advance(int channel);
  void carry(const Value& value, const Link& link, Nanoseconds ready);

  std::size_t microbatches_;
  bool posted_ = false, shared_ = false;
  std::vector<Link> links_;  // of each hop, forward and backward
  std::vector<Channel> channels_;
  std::vector<Nanoseconds> wire_free_;
  std::vector<Nanoseconds> computed_, arrival_, send_posted_, receive_posted_;
};

}  // namespace weft::pipeline::detail
