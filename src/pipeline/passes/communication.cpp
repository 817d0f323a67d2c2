#include <algorithm>

#include "pipeline/passes/weaver.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"

namespace weft::pipeline {
namespace {

using enum ActionType;

/// What a stage computes for a neighbour on another device.
struct Value {
  std::int32_t stage;
  std::int32_t microbatch;
  bool is_gradient;
  /// Entry of the other row by which it was used, or one that is sent after it on the same way: in any case
  /// it is through by then.
  std::int32_t used_at = 0;

  int consumer() const { return stage + (is_gradient ? -1 : 1); }
  Action send() const { return {is_gradient ? send_backward : send_forward, stage, microbatch}; }
  Action receive() const {
    return {is_gradient ? receive_backward : receive_forward, consumer(), microbatch};
  }
};

/// All that one device sends to another, in order.
struct Way {
  int from = 0, to = 0;
  std::vector<Value> values;
};

class Transfers {
 public:
  Transfers(const Schedule& schedule, const CommunicationOptions& options)
      : schedule_(schedule),
        ahead_(options.ahead),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        computed_at_(2 * schedule.device_of.size() * microbatches_, -1),
        ways_from_(schedule.rows.size()),
        ways_to_(schedule.rows.size()),
        way_to_(schedule.rows.size(), -1),
        done_(schedule.rows.size()) {
    find_computations();
    for (int device = 0; device < schedule.devices(); ++device) find_ways(device);
    for (Way& way : ways_) find_uses(way);
  }

  std::vector<Action> woven(int device) {
    const std::vector<Action>& row = row_of(device);
    detail::Weaver weaver(row);
    add_receives(device, weaver);
    for (const std::size_t way : ways_from_[at(device)]) {
      way_to_[at(ways_[way].to)] = static_cast<std::int64_t>(way);
      done_[at(ways_[way].to)] = {};
    }
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      if (is_compute(row[entry].type)) add_at(entry, row[entry], weaver);
    }
    for (const std::size_t way : ways_from_[at(device)]) {
      const std::vector<Value>& values = ways_[way].values;
      for (std::size_t i = done_[at(ways_[way].to)].awaited; i < values.size(); ++i)
        weaver.at_end(awaited(values[i].send()));
      way_to_[at(ways_[way].to)] = -1;
    }
    return weaver.woven();
  }

 private:
  /// Of a way, in the row that is woven.
  struct Done {
    std::size_t sent = 0, awaited = 0;
  };

  static std::size_t at(int number) { return static_cast<std::size_t>(number); }
  const std::vector<Action>& row_of(int device) const { return schedule_.rows[at(device)]; }
  int device_of(int stage) const { return schedule_.device_of[at(stage)]; }

  /// The entry of its device's row that computes F, or else I or B.
  std::int32_t& computed_at(int stage, int microbatch, bool is_gradient) {
    return computed_at_[2 * (at(stage) * microbatches_ + at(microbatch)) + (is_gradient ? 1 : 0)];
  }

  void find_computations() {
    for (const std::vector<Action>& row : schedule_.rows) {
      for (std::size_t entry = 0; entry < row.size(); ++entry) {
        const Action& action = row[entry];
        if (!is_compute(action.type) || action.type == backward_weight) continue;
        computed_at(action.stage, action.microbatch, action.type != forward) =
            static_cast<std::int32_t>(entry);
      }
    }
  }

  /// The value that an entry computes for another device, or one of stage -1.
  Value value_of(const Action& action) const {
    const Value value{action.stage, action.microbatch, action.type != forward};
    const int consumer = value.consumer();
    const bool is_needed = is_compute(action.type) && action.type != backward_weight && consumer >= 0 &&
                           consumer < schedule_.stages() && device_of(consumer) != device_of(action.stage);
    return is_needed ? value : Value{-1, -1, false};
  }

  void find_ways(int device) {
    for (const Action& action : row_of(device)) {
      const Value value = value_of(action);
      if (value.stage < 0) continue;
      const int to = device_of(value.consumer());
      std::int64_t& way = way_to_[at(to)];
      if (way < 0) {
        way = static_cast<std::int64_t>(ways_.size());
        ways_from_[at(device)].push_back(ways_.size());
        ways_to_[at(to)].push_back(ways_.size());
        ways_.push_back({device, to, {}});
      }
      ways_[static_cast<std::size_t>(way)].values.push_back(value);
    }
    for (const std::size_t way : ways_from_[at(device)]) way_to_[at(ways_[way].to)] = -1;
  }

  void find_uses(Way& way) {
    std::int32_t earliest = static_cast<std::int32_t>(row_of(way.to).size());
    for (auto value = way.values.rbegin(); value != way.values.rend(); ++value) {
      const std::int32_t used = computed_at(value->consumer(), value->microbatch, value->is_gradient);
      if (used < 0)
        throw Error(ErrorKind::usage,
                    text("device ", way.to, ": stage ", value->consumer(), " never uses microbatch ",
                         value->microbatch, " of stage ", value->stage),
                    "passes take schedules that verify takes");
      earliest = std::min(earliest, used);
      value->used_at = earliest;
    }
  }

  void add_receives(int device, detail::Weaver& weaver) const {
    const std::vector<Action>& row = row_of(device);
    const std::vector<std::size_t> works = detail::works_of(row);
    std::vector<std::int32_t> work_of(row.size());
    for (std::size_t work = 0; work < works.size(); ++work)
      work_of[works[work]] = static_cast<std::int32_t>(work);
    for (const std::size_t way : ways_to_[at(device)]) {
      for (const Value& value : ways_[way].values)
        weaver.before(detail::work_at(works, std::int64_t{work_of[at(value.used_at)]} - ahead_),
                      value.receive());
    }
  }

  void add_at(std::size_t entry, const Action& action, detail::Weaver& weaver) {
    const bool is_gradient = action.type != forward;
    const int producer = action.stage + (is_gradient ? 1 : -1);
    const bool is_received = action.type != backward_weight && producer >= 0 &&
                             producer < schedule_.stages() && device_of(producer) != device_of(action.stage);
    if (is_received) {
      const Value value{producer, action.microbatch, is_gradient};
      weaver.before(entry, awaited(value.receive()));
      await_sends(entry, device_of(producer), computed_at(producer, action.microbatch, is_gradient), weaver);
    }
    if (const Value value = value_of(action); value.stage >= 0) {
      weaver.after(entry, value.send());
      ++done_[at(device_of(value.consumer()))].sent;
    }
  }

  /// What the other device used up to the entry whose value has just arrived is through.
  void await_sends(std::size_t entry, int other, std::int32_t arrived_from, detail::Weaver& weaver) {
    if (way_to_[at(other)] < 0) return;
    const std::vector<Value>& values = ways_[static_cast<std::size_t>(way_to_[at(other)])].values;
    Done& done = done_[at(other)];
    for (; done.awaited < done.sent && values[done.awaited].used_at <= arrived_from; ++done.awaited)
      weaver.before(entry, awaited(values[done.awaited].send()));
  }

  const Schedule& schedule_;
  const int ahead_;
  const std::size_t microbatches_;
  std::vector<std::int32_t> computed_at_;
  std::vector<Way> ways_;
  std::vector<std::vector<std::size_t>> ways_from_, ways_to_;  ///< of each device
  std::vector<std::int64_t> way_to_;  ///< to each device from the one that is looked at, or -1
  std::vector<Done> done_;            ///< of the way to each device
};

}  // namespace

Schedule with_communication(const Schedule& schedule, const CommunicationOptions& options) {
  detail::expect_without(schedule, {send_forward, receive_forward, send_backward, receive_backward});
  detail::expect_count("ahead", options.ahead);
  Schedule result = detail::frame_of(schedule);
  Transfers transfers(schedule, options);
  for (int device = 0; device < schedule.devices(); ++device)
    result.rows[static_cast<std::size_t>(device)] = transfers.woven(device);
  return result;
}

}  // namespace weft::pipeline
