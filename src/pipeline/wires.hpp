#pragma once
// Values on their way between devices, while a schedule is simulated: an activation or a gradient is sent
// when both sides have posted it, after what was sent before it in its direction, and takes its turn on its
// wire.

#include <queue>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

inline constexpr Nanoseconds unknown = -1;

enum class Direction { forward, backward };

/// What a stage consumes of a microbatch.
struct Value {
  Direction direction;
  int stage;  ///< that consumes it
  int microbatch;
};

class Wires {
 public:
  Wires(const Schedule& schedule, const Problem& problem);

  /// Whether the schedule has entries that send; else every value is sent when it is computed.
  bool posted() const { return posted_; }
  /// Whether devices must be followed in the order of time, because they share wires.
  bool shared() const { return shared_; }
  /// Whether both stages are on one device.
  bool stays(const Value& value) const { return hop_of(value).channel < 0; }

  /// Values that stay: there when they are computed. Others: sent then, unless the schedule has entries for
  /// it.
  void computed(const Value& value, Nanoseconds when);
  void post_send(const Value& value, Nanoseconds when);
  void post_receive(const Value& value, Nanoseconds when);

  Nanoseconds computed_at(const Value& value) const { return computed_[index(value)]; }
  Nanoseconds arrival(const Value& value) const { return arrival_[index(value)]; }
  /// When the sender's buffer is free again.
  Nanoseconds sent(const Value& value) const;

 private:
  struct Way {
    int channel = -1;
    int wire = -1;
    Hop hop;
  };
  struct Channel {
    std::queue<Value> sends;  // posted, in order, that have not begun
  };

  std::size_t index(const Value& value) const {
    return (static_cast<std::size_t>(value.stage) * 2 + (value.direction == Direction::backward ? 1 : 0)) *
               microbatches_ +
           static_cast<std::size_t>(value.microbatch);
  }
  const Way& hop_of(const Value& value) const {
    const bool back = value.direction == Direction::backward;
    return ways_[static_cast<std::size_t>(back ? value.stage : value.stage - 1) * 2 + (back ? 1 : 0)];
  }
  void advance(int channel);
  void carry(const Value& value, const Way& way, Nanoseconds ready);

  std::size_t microbatches_;
  bool posted_ = false, shared_ = false;
  std::vector<Way> ways_;  // of each hop, there and back
  std::vector<Channel> channels_;
  std::vector<Nanoseconds> wire_free_;
  std::vector<Nanoseconds> computed_, arrival_, send_posted_, receive_posted_;
};

}  // namespace weft::pipeline::detail
