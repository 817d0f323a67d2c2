#include "v_listed.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {

Schedule v_half(const Problem& problem) {
  const std::vector<int> placement =
      detail::accepted(problem, v_placement(problem.devices), detail::v_refusal);
  const detail::VRules rules[] = {{.rank = {2, 1, 0, 3}, .beyond_share = 0},
                                  {.rank = {2, 0, 3, 1}, .make_room = true, .beyond_share = 0},
                                  {.rank = {1, 0, 2, 3}, .alternate = true, .beyond_share = 1},
                                  {.rank = {1, 0, 2, 3}, .make_room = true, .beyond_share = 1},
                                  {.rank = {1, 0, 2, 3}, .beyond_share = 0}};
  Schedule schedule = detail::v_listed(problem, placement, problem.devices + 2, rules).schedule;
  schedule.name = "v-half";
  return schedule;
}

}  // namespace weft::pipeline
