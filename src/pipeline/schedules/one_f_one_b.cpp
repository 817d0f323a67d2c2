#include "one_f_one_b.hpp"

#include <algorithm>

#include "refusal.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {

std::optional<Refusal> one_f_one_b_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("1f1b", problem, 1, 1)) return refused;
  std::vector<Bytes> needs;
  for (int device = 0; device < problem.devices; ++device)
    needs.push_back(std::min(problem.microbatches, problem.devices - device) *
                    problem.costs.stages[static_cast<std::size_t>(device)].activation);
  return unless_fits("1f1b", problem, needs);
}

}  // namespace detail

Schedule one_f_one_b(const Problem& problem) {
  Schedule schedule = detail::empty_schedule(
      "1f1b", problem,
      detail::accepted(problem, looped_placement(problem.devices), detail::one_f_one_b_refusal), 2);
  for (int device = 0; device < problem.devices; ++device)
    detail::one_f_one_b_row({schedule.rows[static_cast<std::size_t>(device)], device}, problem.microbatches,
                            problem.devices - device);
  return schedule;
}

}  // namespace weft::pipeline
