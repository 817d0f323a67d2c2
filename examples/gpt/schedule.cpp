#include "schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::examples {

double learning_rate(std::int64_t step, const Schedule& schedule) {
  if (step < schedule.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.steps <= schedule.warmup_steps) return 1;
  const double done = static_cast<double>(step - schedule.warmup_steps) /
                      static_cast<double>(schedule.steps - schedule.warmup_steps);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return schedule.floor + (1 - schedule.floor) * cosine;
}

}  // namespace weft::examples
