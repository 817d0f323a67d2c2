// Executes rows without time, to find deadlocks. A device goes on until it needs something that another has
// not done, and is woken when that happens. Nothing is ever undone, so the order in which devices run changes
// nothing: a device that is blocked at the end is blocked in every order. Linear in entries.

#include <algorithm>

#include "pipeline/verify/marks.hpp"

namespace weft::pipeline::detail {
namespace {

using enum ActionType;

/// How far a value has come that a stage has for its neighbour: an activation for the next stage, or a
/// gradient for the one before.
enum Progress : std::uint8_t { sent = 1, received = 2, is_waited_for = 4 };

class DryRun {
 public:
  DryRun(const Schedule& schedule, bool has_transfers)
      : schedule_(schedule),
        has_transfers_(has_transfers),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        values_(2 * microbatches_ * schedule.device_of.size()),
        next_(schedule.rows.size()) {}

  std::optional<Fault> run() {
    for (int device = schedule_.devices() - 1; device >= 0; --device) ready_.push_back(device);
    while (!ready_.empty()) {
      const int device = ready_.back();
      ready_.pop_back();
      advance(device);
    }
    for (int device = 0; device < schedule_.devices(); ++device) {
      if (is_blocked(device)) return deadlock(device);
    }
    return {};
  }

 private:
  /// A mark that an entry needs, or sets, on a value.
  struct Point {
    int stage = -1;  ///< that has the value; -1: there is none
    bool is_gradient = false;
    Progress mark = sent;
  };

  void advance(int device) {
    const std::vector<Action>& row = row_of(schedule_, device);
    std::size_t& next = next_[static_cast<std::size_t>(device)];
    while (next < row.size()) {
      const std::size_t end = next + (row[next].overlaps_next ? 2 : 1);
      for (std::size_t entry = next; entry < end; ++entry) {
        if (const Point need = needs(row[entry]); !is_there(need, row[entry].microbatch)) {
          value(need, row[entry].microbatch) |= is_waited_for;
          return;
        }
      }
      for (; next < end; ++next) set(gives(row[next]), row[next].microbatch);
    }
  }

  /// What another device must have done before an entry can run.
  Point needs(const Action& action) const {
    if (has_transfers_) {
      if (!action.awaits) return {};
      if (action.type == send_forward) return {action.stage, false, received};
      if (action.type == receive_forward) return {action.stage - 1, false, sent};
      if (action.type == send_backward) return {action.stage, true, received};
      if (action.type == receive_backward) return {action.stage + 1, true, sent};
      return {};
    }
    if (action.type == forward) return {action.stage - 1, false, sent};
    if (action.type == backward || action.type == backward_input) {
      if (action.stage + 1 < schedule_.stages()) return {action.stage + 1, true, sent};
    }
    return {};
  }
  /// What an entry does that another device may wait for.
  Point gives(const Action& action) const {
    if (has_transfers_) {
      if (action.awaits) return {};
      if (action.type == send_forward) return {action.stage, false, sent};
      if (action.type == receive_forward) return {action.stage - 1, false, received};
      if (action.type == send_backward) return {action.stage, true, sent};
      if (action.type == receive_backward) return {action.stage + 1, true, received};
      return {};
    }
    if (action.type == forward) return {action.stage, false, sent};
    if (action.type == backward || action.type == backward_input) return {action.stage, true, sent};
    return {};
  }

  std::uint8_t& value(const Point& point, int microbatch) {
    const std::size_t at =
        static_cast<std::size_t>(point.stage) * microbatches_ + static_cast<std::size_t>(microbatch);
    return values_[2 * at + (point.is_gradient ? 1 : 0)];
  }
  bool is_there(const Point& point, int microbatch) {
    return point.stage < 0 || (value(point, microbatch) & point.mark) != 0;
  }
  void set(const Point& point, int microbatch) {
    if (point.stage < 0) return;
    std::uint8_t& marks = value(point, microbatch);
    marks |= point.mark;
    if ((marks & is_waited_for) == 0) return;
    marks &= static_cast<std::uint8_t>(~is_waited_for);
    ready_.push_back(point.mark == sent ? consumer(point) : device_of(schedule_, point.stage));
  }
  int consumer(const Point& point) const {
    return device_of(schedule_, point.stage + (point.is_gradient ? -1 : 1));
  }

  bool is_blocked(int device) const {
    return next_[static_cast<std::size_t>(device)] < row_of(schedule_, device).size();
  }

  /// What a blocked device waits for, and which device owes it.
  struct Blocked {
    std::size_t entry;
    Action misses;
    int other;
  };
  Blocked blocked(int device) {
    const std::vector<Action>& row = row_of(schedule_, device);
    std::size_t entry = next_[static_cast<std::size_t>(device)];
    Point need = needs(row[entry]);
    if (is_there(need, row[entry].microbatch)) need = needs(row[++entry]);  // the second of a pair
    const bool waits_for_send = need.mark == sent;
    const int other = waits_for_send ? device_of(schedule_, need.stage) : consumer(need);
    // The entry of the other device that does it.
    const std::vector<Action>& others = row_of(schedule_, other);
    const auto misses = std::ranges::find_if(others, [&](const Action& action) {
      const Point given = gives(action);
      return given.stage == need.stage && given.is_gradient == need.is_gradient && given.mark == need.mark &&
             action.microbatch == row[entry].microbatch;
    });
    return {entry, *misses, other};
  }

  /// Names a circle of devices that wait for each other. Every blocked device waits for a blocked one, so
  /// following them leads into a circle.
  Fault deadlock(int device) {
    for (int steps = 0; steps < schedule_.devices(); ++steps) device = blocked(device).other;
    int first = device;
    for (int at = blocked(device).other; at != device; at = blocked(at).other) first = std::min(first, at);
    const Blocked begin = blocked(first);
    std::string what = text("deadlock: it waits for ", begin.misses, " of device ", begin.other);
    constexpr int most = 8;
    int named = 1;
    for (int at = begin.other; at != first && named < most; ++named) {
      const Blocked next = blocked(at);
      what += text("; device ", at, ", entry ", next.entry, " (", entry_of(schedule_, at, next.entry),
                   ") for ", next.misses, " of device ", next.other);
      at = next.other;
    }
    if (named == most) what += "; and so on";
    return fault_at(schedule_, first, begin.entry, what);
  }

  const Schedule& schedule_;
  const bool has_transfers_;
  const std::size_t microbatches_;
  std::vector<std::uint8_t> values_;
  std::vector<std::size_t> next_;  ///< of each device, the first entry that has not run
  std::vector<int> ready_;
};

}  // namespace

std::optional<Fault> check_progress(const Schedule& schedule, bool has_transfers) {
  return DryRun(schedule, has_transfers).run();
}

}  // namespace weft::pipeline::detail
