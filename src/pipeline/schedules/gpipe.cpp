#include "refusal.hpp"
#include "rows.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {

std::optional<Refusal> gpipe_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("gpipe", problem, 1, 1)) return refused;
  std::vector<Bytes> needs;
  for (const StageCosts& stage : problem.costs.stages)
    needs.push_back(problem.microbatches * stage.activation);
  return unless_fits("gpipe", problem, needs);
}

}  // namespace detail

Schedule gpipe(const Problem& problem) {
  Schedule schedule = detail::empty_schedule(
      "gpipe", problem, detail::accepted(problem, looped_placement(problem.devices), detail::gpipe_refusal),
      2);
  for (int device = 0; device < problem.devices; ++device) {
    detail::StageRow row(schedule.rows[static_cast<std::size_t>(device)], device);
    while (row.forwards() < problem.microbatches) row.forward();
    while (row.backwards() < problem.microbatches) row.backward();
  }
  return schedule;
}

}  // namespace weft::pipeline
