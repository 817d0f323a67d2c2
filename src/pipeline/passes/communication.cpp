// SEND, RECV and their waits. Steps:
//   1. find which entry computes each value, and which uses it
//   2. collect what each device sends to each other one, in order: a channel
//   3. per channel, from its end: by which entry of the receiver a value is used, or one sent after it
//   4. per row: RECV `ahead` computations before that entry, WAIT_RECV before the use, SEND after the
//      computation, WAIT_SEND where something arrives that the receiver computed after that entry
// A WAIT_SEND never costs time: the transfer is done before the other message was computed. Linear in
// entries.

#include <algorithm>

#include "pipeline/passes/row_editor.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"

namespace weft::pipeline {
namespace {

using enum ActionType;

/// A value that a stage computes for a neighbour on another device.
struct Value {
  std::int32_t stage;
  std::int32_t microbatch;
  bool is_gradient;
  /// The entry of the receiver's row that uses it or a later value of the same channel: its transfer is
  /// done by then.
  std::int32_t used_at = 0;

  int consumer() const { return stage + (is_gradient ? -1 : 1); }
  Action send() const { return {is_gradient ? send_backward : send_forward, stage, microbatch}; }
  Action receive() const {
    return {is_gradient ? receive_backward : receive_forward, consumer(), microbatch};
  }
};

/// All values that one device sends to another, in order.
struct Channel {
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
        channels_from_(schedule.rows.size()),
        channels_to_(schedule.rows.size()),
        channel_to_(schedule.rows.size(), -1),
        done_(schedule.rows.size()) {
    find_computations();
    for (int device = 0; device < schedule.devices(); ++device) find_channels(device);
    for (Channel& channel : channels_) find_uses(channel);
  }

  std::vector<Action> edited(int device) {
    const std::vector<Action>& row = row_of(device);
    detail::RowEditor editor(row);
    add_receives(device, editor);
    for (const std::size_t channel : channels_from_[at(device)]) {
      channel_to_[at(channels_[channel].to)] = static_cast<std::int64_t>(channel);
      done_[at(channels_[channel].to)] = {};
    }
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      if (is_compute(row[entry].type)) add_at(entry, row[entry], editor);
    }
    for (const std::size_t channel : channels_from_[at(device)]) {
      const std::vector<Value>& values = channels_[channel].values;
      for (std::size_t i = done_[at(channels_[channel].to)].awaited; i < values.size(); ++i)
        editor.at_end(awaited(values[i].send()));
      channel_to_[at(channels_[channel].to)] = -1;
    }
    return editor.edited();
  }

 private:
  /// How many values of a channel the edited row has sent and awaited.
  struct Done {
    std::size_t sent = 0, awaited = 0;
  };

  static std::size_t at(int number) { return static_cast<std::size_t>(number); }
  const std::vector<Action>& row_of(int device) const { return schedule_.rows[at(device)]; }
  int device_of(int stage) const { return schedule_.device_of[at(stage)]; }

  /// The entry of its device's row that computes F or, for a gradient, I or B.
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

  /// The value that an entry computes for another device; its stage is -1 if there is none.
  Value value_of(const Action& action) const {
    const Value value{action.stage, action.microbatch, action.type != forward};
    const int consumer = value.consumer();
    const bool is_needed = is_compute(action.type) && action.type != backward_weight && consumer >= 0 &&
                           consumer < schedule_.stages() && device_of(consumer) != device_of(action.stage);
    return is_needed ? value : Value{-1, -1, false};
  }

  void find_channels(int device) {
    for (const Action& action : row_of(device)) {
      const Value value = value_of(action);
      if (value.stage < 0) continue;
      const int to = device_of(value.consumer());
      std::int64_t& channel = channel_to_[at(to)];
      if (channel < 0) {
        channel = static_cast<std::int64_t>(channels_.size());
        channels_from_[at(device)].push_back(channels_.size());
        channels_to_[at(to)].push_back(channels_.size());
        channels_.push_back({device, to, {}});
      }
      channels_[static_cast<std::size_t>(channel)].values.push_back(value);
    }
    for (const std::size_t channel : channels_from_[at(device)]) channel_to_[at(channels_[channel].to)] = -1;
  }

  void find_uses(Channel& channel) {
    std::int32_t earliest = static_cast<std::int32_t>(row_of(channel.to).size());
    for (auto value = channel.values.rbegin(); value != channel.values.rend(); ++value) {
      const std::int32_t used = computed_at(value->consumer(), value->microbatch, value->is_gradient);
      if (used < 0)
        throw Error(ErrorKind::usage,
                    text("device ", channel.to, ": stage ", value->consumer(), " never uses microbatch ",
                         value->microbatch, " of stage ", value->stage),
                    "passes take schedules that verify takes");
      earliest = std::min(earliest, used);
      value->used_at = earliest;
    }
  }

  void add_receives(int device, detail::RowEditor& editor) const {
    const std::vector<Action>& row = row_of(device);
    const std::vector<std::size_t> computations = detail::computations_of(row);
    std::vector<std::int32_t> order_of(row.size());
    for (std::size_t k = 0; k < computations.size(); ++k)
      order_of[computations[k]] = static_cast<std::int32_t>(k);
    for (const std::size_t channel : channels_to_[at(device)]) {
      for (const Value& value : channels_[channel].values)
        editor.before(
            detail::computation_at(computations, std::int64_t{order_of[at(value.used_at)]} - ahead_),
            value.receive());
    }
  }

  void add_at(std::size_t entry, const Action& action, detail::RowEditor& editor) {
    const bool is_gradient = action.type != forward;
    const int producer = action.stage + (is_gradient ? 1 : -1);
    const bool is_received = action.type != backward_weight && producer >= 0 &&
                             producer < schedule_.stages() && device_of(producer) != device_of(action.stage);
    if (is_received) {
      const Value value{producer, action.microbatch, is_gradient};
      editor.before(entry, awaited(value.receive()));
      await_sends(entry, device_of(producer), computed_at(producer, action.microbatch, is_gradient), editor);
    }
    if (const Value value = value_of(action); value.stage >= 0) {
      editor.after(entry, value.send());
      ++done_[at(device_of(value.consumer()))].sent;
    }
  }

  /// Awaits the sends that the other device used up to the entry whose value has just arrived.
  void await_sends(std::size_t entry, int other, std::int32_t arrived_from, detail::RowEditor& editor) {
    if (channel_to_[at(other)] < 0) return;
    const std::vector<Value>& values = channels_[static_cast<std::size_t>(channel_to_[at(other)])].values;
    Done& done = done_[at(other)];
    for (; done.awaited < done.sent && values[done.awaited].used_at <= arrived_from; ++done.awaited)
      editor.before(entry, awaited(values[done.awaited].send()));
  }

  const Schedule& schedule_;
  const int ahead_;
  const std::size_t microbatches_;
  std::vector<std::int32_t> computed_at_;
  std::vector<Channel> channels_;
  std::vector<std::vector<std::size_t>> channels_from_, channels_to_;  ///< of each device
  std::vector<std::int64_t> channel_to_;  ///< to each device from the current one, or -1
  std::vector<Done> done_;                ///< of the channel to each device
};

}  // namespace

Schedule with_communication(const Schedule& schedule, const CommunicationOptions& options) {
  detail::expect_without(schedule, {send_forward, receive_forward, send_backward, receive_backward});
  detail::expect_count("ahead", options.ahead);
  Schedule result = detail::with_empty_rows(schedule);
  Transfers transfers(schedule, options);
  for (int device = 0; device < schedule.devices(); ++device)
    result.rows[static_cast<std::size_t>(device)] = transfers.edited(device);
  return result;
}

}  // namespace weft::pipeline
