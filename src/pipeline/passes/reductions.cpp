#include "pipeline/passes/weaver.hpp"
#include "weft/pipeline/passes.hpp"

namespace weft::pipeline {

Schedule with_reductions(const Schedule& schedule) {
  detail::expect_without(schedule, {ActionType::reduce_gradients});
  Schedule result = detail::frame_of(schedule);
  std::vector<std::size_t> last(schedule.device_of.size());
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const std::vector<Action>& row = schedule.rows[device];
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      if (is_backward(row[entry].type)) last[static_cast<std::size_t>(row[entry].stage)] = entry;
    }
    detail::Weaver weaver(row);
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      if (!is_backward(row[entry].type) || last[static_cast<std::size_t>(row[entry].stage)] != entry)
        continue;
      const Action reduce{ActionType::reduce_gradients, row[entry].stage};
      weaver.after(entry, reduce);
      weaver.at_end(awaited(reduce));
    }
    result.rows[device] = weaver.woven();
  }
  return result;
}

}  // namespace weft::pipeline
