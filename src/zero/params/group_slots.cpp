#include "zero/params/group_slots.hpp"

#include <algorithm>

namespace weft::detail {

std::optional<GroupSlots::Held> GroupSlots::hold(int group) {
  ++uses_;
  if (seen_.size() < most_seen) seen_.push_back(group);
  follow(group);
  const auto there = std::ranges::find(slots_, group, &Slot::group);
  if (there != slots_.end()) {
    there->held = true;
    there->used = uses_;
    return Held{static_cast<int>(there - slots_.begin()), true};
  }
  const auto slot = least_needed(0);
  if (!slot) return std::nullopt;
  slots_[*slot] = {group, true, uses_};
  return Held{static_cast<int>(*slot), false};
}

void GroupSlots::release(int group) {
  for (Slot& slot : slots_) {
    if (slot.group == group) slot.held = false;
  }
}

std::vector<int> GroupSlots::held() const {
  std::vector<int> held;
  for (const Slot& slot : slots_) {
    if (slot.held) held.push_back(slot.group);
  }
  return held;
}

std::optional<GroupSlots::Place> GroupSlots::next_prefetch() {
  for (std::size_t use = position_; use < expected_.size(); ++use) {
    const int group = expected_[use];
    if (std::ranges::find(slots_, group, &Slot::group) != slots_.end()) continue;
    const auto slot = least_needed(use);
    if (!slot) return std::nullopt;
    slots_[*slot].group = group;
    return Place{group, static_cast<int>(*slot)};
  }
  return std::nullopt;
}

void GroupSlots::invalidate() {
  for (Slot& slot : slots_) slot = {};
  expected_.swap(seen_);
  seen_.clear();
  position_ = 0;
  uses_ = 0;
}

std::size_t GroupSlots::next_use(int group) const {
  const auto found =
      std::find(expected_.begin() + static_cast<std::ptrdiff_t>(position_), expected_.end(), group);
  return found == expected_.end() ? never : static_cast<std::size_t>(found - expected_.begin());
}

std::optional<std::size_t> GroupSlots::least_needed(std::size_t before) const {
  std::optional<std::size_t> best;
  std::size_t latest = before;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].held) continue;
    const std::size_t use = slots_[i].group < 0 ? never : next_use(slots_[i].group);
    const bool is_older = best && use == latest && slots_[i].used < slots_[*best].used;
    if (best ? use > latest || is_older : use >= before) {
      best = i;
      latest = use;
    }
  }
  return best;
}

// Moves the position behind the group's next use, or behind its first use where it has no later one: an
// evaluation between two updates passes all groups more often than training does.
void GroupSlots::follow(int group) {
  std::size_t use = next_use(group);
  if (use == never) {
    const auto found = std::ranges::find(expected_, group);
    if (found == expected_.end()) return;
    use = static_cast<std::size_t>(found - expected_.begin());
  }
  position_ = use + 1;
}

}  // namespace weft::detail
