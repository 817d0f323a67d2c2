#include <algorithm>

#include "one_f_one_b.hpp"
#include "refusal.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {

std::optional<Refusal> eager_one_f_one_b_refusal(const Problem& problem) {
  return unless_chunks("eager-1f1b", problem, 1, 1);
}

}  // namespace detail

Schedule eager_one_f_one_b(const Problem& problem) {
  Schedule schedule = detail::empty_schedule(
      "eager-1f1b", problem,
      detail::accepted(problem, looped_placement(problem.devices), detail::eager_one_f_one_b_refusal), 2);
  Bytes before = problem.microbatches;
  for (int device = 0; device < problem.devices; ++device) {
    const auto index = static_cast<std::size_t>(device);
    const Bytes activation = problem.costs.stages[index].activation;
    // Less than the device before, where more forwards come: with as many it would wait for one that comes
    // only after that device's first backward, and so with every microbatch, once around for each.
    const Bytes most = before < problem.microbatches ? std::max<Bytes>(before - 1, 1) : before;
    Bytes in_flight = std::min<Bytes>(2 * (problem.devices - 1 - device) + 1, most);
    if (!problem.memory_limit.empty() && activation > 0)
      in_flight = std::min(in_flight, problem.memory_limit[index] / activation);
    detail::one_f_one_b_row({schedule.rows[index], device}, problem.microbatches,
                            static_cast<int>(in_flight));
    before = in_flight;
  }
  return schedule;
}

}  // namespace weft::pipeline
