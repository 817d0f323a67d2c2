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

void ProgressTable::show(std::size_t entry_plus_1) {
  weft::detail::show(comm_, step_ << bits_of_entry | entry_plus_1);
}

std::optional<ProgressTable::Place> ProgressTable::place_of(int device) const {
  const std::optional<std::uint64_t> shown = weft::detail::shown(comm_, device);
  if (!shown) return std::nullopt;
  const std::uint64_t entry_plus_1 = *shown & ((std::uint64_t{1} << bits_of_entry) - 1);
  if (entry_plus_1 == 0) return Place{.step = *shown >> bits_of_entry, .entry = nullptr};
  const std::vector<Action>& row = schedule_->rows[static_cast<std::size_t>(device)];
  return Place{.step = *shown >> bits_of_entry, .entry = &row[entry_plus_1 - 1]};
}

bool ProgressTable::is_past(int device, const Place& place, const Action& action, std::uint64_t step) const {
  if (place.step != step) return place.step > step;
  if (place.entry == nullptr) return true;
  const Action* begin = schedule_->rows[static_cast<std::size_t>(device)].data();
  const bool receives =
      action.type == ActionType::receive_forward || action.type == ActionType::receive_backward;
  // On a device a receive is posted at the entry that awaits it (executor_step.cpp).
  if (receives && !comm_.device().is_host())
    return std::find(begin, place.entry + 1, awaited(action)) != place.entry + 1;
  return std::find(begin, place.entry, action) != place.entry;
}

std::string ProgressTable::described_at(const Place& place) const {
  if (place.entry == nullptr) return "in no step";
  return text("at ", described(*place.entry), place.step != step_ ? text(" of step ", place.step) : "");
}

std::string ProgressTable::blocked_by(const Action& waiting) const {
  int waiter = comm_.rank();
  Place at{.step = step_, .entry = &waiting};
  // A chain of waits names every device at most once: verify() has checked that there is no circle.
  for (int hop = 0; hop < schedule_->devices(); ++hop) {
    const int device = peer_of(*schedule_, *at.entry);
    const Action owed = counterpart(*at.entry);
    const std::optional<Place> place = place_of(device);
    if (!place) return text("device ", device, ", on another node, owes ", described(owed));
    if (is_past(device, *place, owed, at.step)) {
      if (waiter == comm_.rank())
        return text("device ", device, " is ", described_at(*place), "; it has posted ", owed);
      return text("device ", waiter, " is ", described_at(at), ", though device ", device,
                  " has posted its part");
    }
    if (place->entry == nullptr) return text("device ", device, " is in no step, and owes ", described(owed));
    if (!place->entry->awaits || !is_transfer(place->entry->type))
      return text("device ", device, " is ", described_at(*place));
    at = *place;
    waiter = device;
  }
  return text("all devices up to ", waiter, " wait for messages, this one at ", described(waiting));
}

}  // namespace weft::pipeline::detail
