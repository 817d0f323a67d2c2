#include "pipeline/passes/weaver.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"

namespace weft::pipeline {

Schedule with_recompute(const Schedule& schedule, const std::vector<int>& stages) {
  using enum ActionType;
  detail::expect_without(schedule, {});
  const std::vector<bool> is_chosen = detail::marked(schedule, stages);
  Schedule result = detail::frame_of(schedule);
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const std::vector<Action>& row = schedule.rows[device];
    detail::Weaver weaver(row);
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      const Action& action = row[entry];
      if (!is_chosen[static_cast<std::size_t>(action.stage)]) continue;
      if (action.type == recompute || action.type == offload)
        throw Error(ErrorKind::usage,
                    text("device ", device, ", entry ", entry, " (", action,
                         "): is there before its stage is to be recomputed"),
                    "recompute a stage once, and before anything of it is offloaded");
      if (action.type == backward || action.type == backward_input)
        weaver.before(entry, {recompute, action.stage, action.microbatch});
    }
    result.rows[device] = weaver.woven();
  }
  return result;
}

}  // namespace weft::pipeline
