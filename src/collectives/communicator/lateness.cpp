// Who makes an operation wait, and what is said of it: one line for a rank that is late once, however many operations wait for it.

#include "collectives/communicator/communicator_state.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {

std::string CommunicatorState::late(std::uint64_t place, const GroupProgress* group) {
  const auto entry = log_->look(place);
  if (!entry) return {};
  const bool on_device = entry->sequence == OperationLog::Sequence::device;
  if (!on_device && entry->state == OperationLog::State::issued)
    return text("this rank (", rank_,
                "), where work before it on its stream, or a message before it, is not done");
  if (group != nullptr) return group->missing();
  const std::uint64_t number = entry->operation.number;
  if (on_device) return backend_->peer_status() != nullptr ? backend_->peer_status()->behind(number) : "";
  const std::chrono::steady_clock::time_point since{std::chrono::nanoseconds(entry->begun)};
  return watchdog_ ? watchdog_->late(number, since).names : backend_->late(number);
}

bool CommunicatorState::tell_late(const Issued& issued, std::chrono::steady_clock::time_point since) {
  if (!issued.is_collective) return true;  // who is behind in collectives need not be who it waits for
  if (log::level() < log::Level::warn) return true;
  {  // A rank that is late holds up all that was issued meanwhile, and all that it has still to come to.
    const std::lock_guard lock(late_mutex_);
    if (told_of_ || since < came_at_) return true;
  }
  const std::string late =
      watchdog_ ? watchdog_->late(issued.number, since).names : backend_->late(issued.number);
  if (late.empty()) return false;
  {
    const std::lock_guard lock(late_mutex_);
    if (told_of_) return true;
    told_of_ = issued.number;
  }
  const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
  log::warn(
      text("rank ", rank_, ": ", issued.label, " #", issued.number, " has waited ", waited, " s for ", late));
  return true;
}

void CommunicatorState::came_after_all(const Issued& issued) {
  const std::lock_guard lock(late_mutex_);
  if (told_of_ != issued.number) return;
  told_of_.reset();
  came_at_ = std::chrono::steady_clock::now();
}

}  // namespace weft::detail
