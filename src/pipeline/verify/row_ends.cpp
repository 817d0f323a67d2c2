// The end of a row: every stage has computed every microbatch, every value that another device needs was sent
// and awaited, and what was posted was awaited. One mask per microbatch tells; the entry at fault is looked
// up afterwards.

#include "pipeline/verify/marks.hpp"

namespace weft::pipeline::detail {
namespace {

using enum ActionType;

class RowEnd {
 public:
  RowEnd(const Schedule& schedule, Marks& marks, int device)
      : schedule_(schedule), marks_(marks), device_(device) {}

  std::optional<Fault> check(int number, const StageState& stage) const {
    if (stage.parameters == Parameters::gathering) return never_awaited({unshard, number});
    if ((stage.marks & mark(reduce_gradients)) == 0) {
      if ((marks_.types & mark(reduce_gradients)) != 0)
        return missing({reduce_gradients, number}, ", other stages have it");
    } else if ((stage.marks & mark_awaited(reduce_gradients)) == 0) {
      return never_awaited({reduce_gradients, number});
    }
    const bool has_transfers = (marks_.types & any_transfer) != 0;
    Mark sends = 0;
    if (has_transfers && stage.gradient == StageState::another) sends |= mark(send_forward);
    if (has_transfers && stage.input == StageState::another) sends |= mark(send_backward);
    for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch) {
      const Mark seen = marks_.row(number)[microbatch];
      const bool has_all = (seen & any_end) != 0 && (seen & sends) == sends && (seen >> 16 & sends) == sends;
      if (!has_all) return first_missing(number, microbatch, seen, sends);
    }
    return {};
  }

 private:
  Fault missing(const Action& action, const char* why) const {
    return {text("device ", device_, ": ", action, " is missing", why), device_};
  }
  Fault never_awaited(const Action& action) const {
    const std::vector<Action>& row = row_of(schedule_, device_);
    std::size_t entry = row.size() - 1;
    while (!(row[entry] == action)) --entry;
    return fault_at(schedule_, device_, entry, "is never awaited");
  }

  Fault first_missing(int stage, int microbatch, Mark seen, Mark sends) const {
    if ((seen & mark(forward)) == 0) return missing({forward, stage, microbatch}, "");
    if ((seen & any_end) == 0)
      return missing({(seen & mark(backward_input)) != 0 ? backward_weight : backward, stage, microbatch},
                     "");
    const Mark there = seen & (seen >> 16);
    const ActionType type = (sends & ~there & mark(send_forward)) != 0 ? send_forward : send_backward;
    const Action send{type, stage, microbatch};
    if ((seen & mark(type)) == 0) return missing(send, ": another device needs the value");
    return never_awaited(send);
  }

  const Schedule& schedule_;
  Marks& marks_;
  const int device_;
};

}  // namespace

std::optional<Fault> check_row_ends(const Schedule& schedule, Marks& marks, int device,
                                    const std::vector<StageState>& stages) {
  const RowEnd end(schedule, marks, device);
  for (int number = 0; number < schedule.stages(); ++number) {
    if (device_of(schedule, number) != device) continue;
    if (auto fault = end.check(number, stages[static_cast<std::size_t>(number)])) return fault;
  }
  return {};
}

}  // namespace weft::pipeline::detail
