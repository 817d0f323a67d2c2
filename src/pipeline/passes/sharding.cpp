// Passes about what data-parallel ranks share: UNSHARD and RESHARD gather and release parameters around their
// uses (ZeRO-3), REDUCE_GRAD sums gradients after a stage's last backward. Both go through each row a fixed
// number of times.

#include <algorithm>

#include "pipeline/passes/row_editor.hpp"
#include "weft/pipeline/passes.hpp"

namespace weft::pipeline {
namespace {

using enum ActionType;

/// Walks the computations of a row: one that finds its stage's last use `kept` computations away or further
/// closes that use with RESHARD and gathers anew. @param last_uses one per stage, -1 at first: the last
/// computation of the row that used the stage
std::vector<Action> with_unshards_in(const std::vector<Action>& row, const UnshardOptions& options,
                                     const std::vector<bool>& is_sharded,
                                     std::vector<std::int64_t>& last_uses) {
  const std::vector<std::size_t> computations = detail::computations_of(row);
  const auto size = static_cast<std::int64_t>(computations.size());
  // A stage is kept if its UNSHARD would stand right after its RESHARD.
  const std::int64_t kept = std::max<std::int64_t>(options.kept, std::int64_t{options.ahead} + 1);
  detail::RowEditor editor(row);
  std::vector<std::int64_t> waits;  // added after every UNSHARD, to stand behind it at the same place
  for (std::int64_t k = 0; k < size; ++k) {
    const int stage = row[detail::computation_at(computations, k)].stage;
    if (!is_sharded[static_cast<std::size_t>(stage)]) continue;
    std::int64_t& last_use = last_uses[static_cast<std::size_t>(stage)];
    if (last_use < 0 || k - last_use > kept) {
      if (last_use >= 0) editor.after(detail::computation_at(computations, last_use), {reshard, stage});
      editor.before(detail::computation_at(computations, k - options.ahead), {unshard, stage});
      waits.push_back(k);
    }
    last_use = k;
  }
  for (const std::int64_t k : waits) {
    const std::size_t entry = detail::computation_at(computations, k);
    editor.before(entry, awaited({unshard, row[entry].stage}));
  }
  for (std::int64_t k = 0; k < size; ++k) {
    const int stage = row[detail::computation_at(computations, k)].stage;
    if (is_sharded[static_cast<std::size_t>(stage)] && last_uses[static_cast<std::size_t>(stage)] == k)
      editor.after(detail::computation_at(computations, k), {reshard, stage});
  }
  return editor.edited();
}

}  // namespace

Schedule with_unshards(const Schedule& schedule, const UnshardOptions& options) {
  detail::expect_without(schedule, {unshard, reshard});
  detail::expect_count("ahead", options.ahead);
  detail::expect_count("kept", options.kept);
  std::vector<bool> is_sharded = detail::marked(schedule, options.stages);
  if (options.stages.empty()) is_sharded.flip();
  Schedule result = detail::with_empty_rows(schedule);
  std::vector<std::int64_t> last_uses(schedule.device_of.size(), -1);
  for (std::size_t device = 0; device < schedule.rows.size(); ++device)
    result.rows[device] = with_unshards_in(schedule.rows[device], options, is_sharded, last_uses);
  return result;
}

Schedule with_reductions(const Schedule& schedule) {
  detail::expect_without(schedule, {reduce_gradients});
  Schedule result = detail::with_empty_rows(schedule);
  std::vector<std::size_t> last(schedule.device_of.size());
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const std::vector<Action>& row = schedule.rows[device];
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      if (is_backward(row[entry].type)) last[static_cast<std::size_t>(row[entry].stage)] = entry;
    }
    detail::RowEditor editor(row);
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      if (!is_backward(row[entry].type) || last[static_cast<std::size_t>(row[entry].stage)] != entry)
        continue;
      const Action reduce{reduce_gradients, row[entry].stage};
      editor.after(entry, reduce);
      editor.at_end(awaited(reduce));
    }
    result.rows[device] = editor.edited();
  }
  return result;
}

}  // namespace weft::pipeline
