#include "v_listed.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {

Schedule v_min(const Problem& problem) {
  const std::vector<int> placement =
      detail::accepted(problem, v_placement(problem.devices), detail::v_refusal);
  const detail::VRules rules[] = {{.rank = {1, 0, 3, 2}, .make_room = true, .beyond_share = 0},
                                  {.rank = {1, 0, 3, 2}, .make_room = true, .beyond_share = 1},
                                  {.rank = {1, 0, 2, 3}, .beyond_share = 0},
                                  {.rank = {2, 0, 3, 1}, .make_room = true, .beyond_share = 0}};
  Schedule schedule = detail::v_listed(problem, placement, 2 * ((problem.devices + 4) / 3), rules).schedule;
  schedule.name = "v-min";
  return schedule;
}

}  // namespace weft::pipeline
