#include "zero/params/gather_buffers.hpp"

#include <algorithm>

namespace weft::detail {

std::optional<GatherBuffers::Held> GatherBuffers::hold(int unit) {
  ++uses_;
  if (seen_.size() < most_seen) seen_.push_back(unit);
  follow(unit);
  const auto there = std::ranges::find(buffers_, unit, &GatherBuffer::unit);
  if (there != buffers_.end()) {
    there->held = true;
    there->used = uses_;
    return Held{static_cast<int>(there - buffers_.begin()), true};
  }
  const auto buffer = least_needed(0);
  if (!buffer) return std::nullopt;
  buffers_[*buffer] = {unit, true, uses_};
  return Held{static_cast<int>(*buffer), false};
}

void GatherBuffers::release(int unit) {
  for (GatherBuffer& buffer : buffers_) {
    if (buffer.unit == unit) buffer.held = false;
  }
}

std::vector<int> GatherBuffers::held() const {
  std::vector<int> held;
  for (const GatherBuffer& buffer : buffers_) {
    if (buffer.held) held.push_back(buffer.unit);
  }
  return held;
}

std::optional<GatherBuffers::Place> GatherBuffers::next_prefetch() {
  for (std::size_t use = position_; use < expected_.size(); ++use) {
    const int unit = expected_[use];
    if (std::ranges::find(buffers_, unit, &GatherBuffer::unit) != buffers_.end()) continue;
    const auto buffer = least_needed(use);
    if (!buffer) return std::nullopt;
    buffers_[*buffer].unit = unit;
    return Place{unit, static_cast<int>(*buffer)};
  }
  return std::nullopt;
}

void GatherBuffers::invalidate() {
  for (GatherBuffer& buffer : buffers_) buffer = {};
  expected_.swap(seen_);
  seen_.clear();
  position_ = 0;
  uses_ = 0;
}

std::size_t GatherBuffers::next_use(int unit) const {
  const auto found =
      std::find(expected_.begin() + static_cast<std::ptrdiff_t>(position_), expected_.end(), unit);
  return found == expected_.end() ? never : static_cast<std::size_t>(found - expected_.begin());
}

std::optional<std::size_t> GatherBuffers::least_needed(std::size_t before) const {
  std::optional<std::size_t> best;
  std::size_t latest = before;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].held) continue;
    const std::size_t use = buffers_[i].unit < 0 ? never : next_use(buffers_[i].unit);
    const bool is_older = best && use == latest && buffers_[i].used < buffers_[*best].used;
    if (best ? use > latest || is_older : use >= before) {
      best = i;
      latest = use;
    }
  }
  return best;
}

// Moves the position behind the unit's next use, or behind its first use where it has no later one: an
// evaluation between two updates passes all units more often than training does.
void GatherBuffers::follow(int unit) {
  std::size_t use = next_use(unit);
  if (use == never) {
    const auto found = std::ranges::find(expected_, unit);
    if (found == expected_.end()) return;
    use = static_cast<std::size_t>(found - expected_.begin());
  }
  position_ = use + 1;
}

}  // namespace weft::detail
