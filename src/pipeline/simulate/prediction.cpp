// The figures of a prediction, and the check that it has times.

#include "pipeline/simulate/prediction.hpp"

#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

double bubble(Nanoseconds work, Nanoseconds length) {
  return length == 0 ? 0 : 1 - static_cast<double>(work) / static_cast<double>(length);
}

}  // namespace

Nanoseconds Prediction::length(Objective objective) const {
  return objective == Objective::makespan ? makespan : span;
}

bool Prediction::fits(const Problem& problem) const {
  for (std::size_t d = 0; d < problem.memory_limit.size(); ++d) {
    if (devices[d].peak_memory > problem.memory_limit[d]) return false;
  }
  return true;
}

Nanoseconds Prediction::most_work() const {
  Nanoseconds most = 0;
  for (const DevicePrediction& one : devices) most = std::max(most, one.work);
  return most;
}

double Prediction::bubble_makespan() const {
  return bubble(most_work(), makespan);
}

double Prediction::bubble_span() const {
  return bubble(most_work(), span);
}

namespace detail {

void expect_times(const Schedule& schedule, const Prediction& prediction) {
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const auto has = [&](const std::vector<std::vector<Nanoseconds>>& times) {
      return device < times.size() && times[device].size() == schedule.rows[device].size();
    };
    if (!has(prediction.begins) || !has(prediction.ends))
      throw Error(ErrorKind::usage, text("a prediction without the times of device ", device, "'s row"),
                  "simulate this schedule with Keep::times");
  }
}

}  // namespace detail
}  // namespace weft::pipeline
