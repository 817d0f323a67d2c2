// Passes about activations: RECOMPUTE computes them anew from the stage's input, OFFLOAD and LOAD keep them
// on the host meanwhile. Each pass goes through every row once.

#include "pipeline/passes/row_editor.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"

namespace weft::pipeline {
namespace {

using enum ActionType;
constexpr std::int64_t stays = -1;

/// Adds the copies of one row. From F to its I or B an activation is out between WAIT_OFFLOAD, `behind`
/// computations after F, and LOAD, `ahead` computations before the use; it stays where that leaves nothing.
class OffloadedRow {
 public:
  OffloadedRow(const std::vector<Action>& row, const OffloadOptions& options)
      : row_(row), options_(options), computations_(detail::computations_of(row)), editor_(row) {}

  /// @param forwards by stage and microbatch: filled with the number of its F among the row's computations,
  /// or `stays`
  std::vector<Action> edited(const std::function<bool(int, int)>& which, std::vector<std::int64_t>& forwards,
                             int microbatches) {
    const auto size = static_cast<std::int64_t>(computations_.size());
    for (std::int64_t k = 0; k < size; ++k) {
      const Action& action = row_[detail::computation_at(computations_, k)];
      auto& forward_at =
          forwards[static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(microbatches) +
                   static_cast<std::size_t>(action.microbatch)];
      if (action.type == forward) {
        forward_at = which(action.stage, action.microbatch) ? k : stays;
      } else if (action.type == recompute) {
        forward_at = stays;
      } else if (action.type != backward_weight && forward_at != stays) {
        move(action, forward_at, k);
      }
    }
    return editor_.edited();
  }

 private:
  void move(const Action& use, std::int64_t computed, std::int64_t used) {
    if (computed + options_.behind >= used - options_.ahead) return;
    const std::size_t left = detail::computation_at(computations_, computed + options_.behind);
    const std::size_t wanted = detail::computation_at(computations_, used - options_.ahead);
    if (editor_.place_after(left) >= editor_.place_before(wanted)) return;
    const Action out{offload, use.stage, use.microbatch};
    const Action in{load, use.stage, use.microbatch};
    editor_.after(detail::computation_at(computations_, computed), out);
    editor_.after(left, awaited(out));
    editor_.before(wanted, in);
    editor_.before(detail::computation_at(computations_, used), awaited(in));
  }

  const std::vector<Action>& row_;
  const OffloadOptions& options_;
  const std::vector<std::size_t> computations_;
  detail::RowEditor editor_;
};

}  // namespace

Schedule with_recompute(const Schedule& schedule, const std::vector<int>& stages) {
  detail::expect_without(schedule, {});
  const std::vector<bool> is_chosen = detail::marked(schedule, stages);
  Schedule result = detail::with_empty_rows(schedule);
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const std::vector<Action>& row = schedule.rows[device];
    detail::RowEditor editor(row);
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      const Action& action = row[entry];
      if (!is_chosen[static_cast<std::size_t>(action.stage)]) continue;
      if (action.type == recompute || action.type == offload)
        throw Error(ErrorKind::usage,
                    text("device ", device, ", entry ", entry, " (", action,
                         "): is there before its stage is to be recomputed"),
                    "recompute a stage once, and before anything of it is offloaded");
      if (action.type == backward || action.type == backward_input)
        editor.before(entry, {recompute, action.stage, action.microbatch});
    }
    result.rows[device] = editor.edited();
  }
  return result;
}

Schedule with_offload(const Schedule& schedule, const std::function<bool(int, int)>& which,
                      const OffloadOptions& options) {
  detail::expect_without(schedule, {offload, load});
  detail::expect_count("behind", options.behind);
  detail::expect_count("ahead", options.ahead);
  Schedule result = detail::with_empty_rows(schedule);
  std::vector<std::int64_t> forwards(
      schedule.device_of.size() * static_cast<std::size_t>(schedule.microbatches), stays);
  for (std::size_t device = 0; device < schedule.rows.size(); ++device)
    result.rows[device] =
        OffloadedRow(schedule.rows[device], options).edited(which, forwards, schedule.microbatches);
  return result;
}

}  // namespace weft::pipeline
