#include "collectives/patience.hpp"

namespace weft::detail {

bool Patience::time_to_look() {
  if (++polls_ % 64 != 0) return false;
  const auto now = Deadline::Clock::now();
  if (!deadline_) deadline_ = Deadline::in(timeout_);
  if (now < next_look_) return false;
  next_look_ = now + std::chrono::milliseconds(5);
  return true;
}

}  // namespace weft::detail
