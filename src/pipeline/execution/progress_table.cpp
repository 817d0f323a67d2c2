#include "pipeline/execution/progress_table.hpp"

#include <algorithm>

#include "weft/core/error.hpp"

namespace weft::pipeline::detail {

std::string described(const Action& action) {
  std::string of = text("stage ", action.stage);
  if (action.microbatch >= 0) of += text(", microbatch ", action.microbatch);
  return text(action, " (", of, ")");
}

bool is_transfer(ActionType type) {
  return type >= ActionType::send_forward && type <= ActionType::receive_backward;
}

namespace {

bool goes_to_next(ActionType type) {
  return type == ActionType::send_forward || type == ActionType::receive_backward;
}

/// The other device's entry for the same value.
Action counterpart(const Action& transfer) {
  Action result{.microbatch = transfer.microbatch};
  result.stage = transfer.stage + (goes_to_next(transfer.type) ? 1 : -1);
  switch (transfer.type) {
    case ActionType::send_forward:
      result.type = ActionType::receive_forward;
      break;
    case ActionType::receive_forward:
      result.type = ActionType::send_forward;
      break;
    case ActionType::send_backward:
      result.type = ActionType::receive_backward;
      break;
    default:
      result.type = ActionType::send_backward;
  }
  return result;
}

}  // namespace

int peer_of(const Schedule& schedule, const Action& transfer) {
  const int stage = transfer.stage + (goes_to_next(transfer.type) ? 1 : -1);
  return schedule.device_of[static_cast<std::size_t>(stage)];
}

std::string ProgressTable::blocked_by(const Action& waiting) const {
  Action at = waiting;
  int waiter = comm_.rank();
  // A chain of waits names every device at most once: verify() has checked that there is no circle.
  for (int hop = 0; hop < schedule_->devices(); ++hop) {
    const int device = peer_of(*schedule_, at);
    const Action owed = counterpart(at);
    const std::optional<std::uint64_t> shown = weft::detail::shown(comm_, device);
    if (!shown) return text("device ", device, ", on another node, owes ", described(owed));
    if (*shown == 0) return text("device ", device, " is in no step, and owes ", described(owed));
    const std::vector<Action>& row = schedule_->rows[static_cast<std::size_t>(device)];
    const auto entry = row.begin() + static_cast<std::ptrdiff_t>(*shown - 1);
    if (std::find(row.begin(), entry, owed) != entry) {
      if (waiter == comm_.rank()) return text("device ", device, " has posted ", owed, ": it is on its way");
      return text("device ", waiter, " is at ", described(at), ", though device ", device,
                  " has posted its part");
    }
    if (!entry->awaits || !is_transfer(entry->type))
      return text("device ", device, " is at ", described(*entry));
    at = *entry;
    waiter = device;
  }
  return text("all devices up to ", waiter, " wait for messages, this one at ", described(waiting));
}

}  // namespace weft::pipeline::detail
