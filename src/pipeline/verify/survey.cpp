#include "pipeline/verify/marks.hpp"

namespace weft::pipeline::detail {
namespace {

constexpr Mark can_be_awaited = any_transfer | mark(ActionType::unshard) |
                                mark(ActionType::reduce_gradients) | mark(ActionType::offload) |
                                mark(ActionType::load);
constexpr Mark of_stage =
    mark(ActionType::unshard) | mark(ActionType::reshard) | mark(ActionType::reduce_gradients);

/// What is wrong with an entry by itself, or nothing.
std::string fault_of(const Schedule& schedule, int device, const Action& action) {
  if (action.stage < 0 || action.stage >= schedule.stages())
    return text("there are ", schedule.stages(), " stages");
  if (device_of(schedule, action.stage) != device)
    return text("its stage is on device ", device_of(schedule, action.stage));
  if ((mark(action.type) & of_stage) != 0) {
    if (action.microbatch != -1) return "is of a stage, not of a microbatch";
  } else if (action.microbatch < 0 || action.microbatch >= schedule.microbatches) {
    return text("there are ", schedule.microbatches, " microbatches");
  }
  if (action.awaits && (mark(action.type) & can_be_awaited) == 0) return "is never awaited: it is not posted";
  return {};
}

/// What is wrong with an entry that says that it overlaps the next one, or nothing.
std::string fault_of_pair(const std::vector<Action>& row, std::size_t entry) {
  const Action& forward = row[entry];
  if (forward.type != ActionType::forward) return "only a forward overlaps what is next";
  if (entry + 1 == row.size()) return "overlaps the next, which is not there";
  const Action& next = row[entry + 1];
  const bool is_backward = (mark(next.type) & (any_backward | any_end)) != 0 && !next.awaits;
  if (!is_backward) return text("overlaps ", next, ", which is no backward");
  if (next.stage == forward.stage && next.microbatch == forward.microbatch)
    return text("overlaps ", next, ", which needs it");
  return {};
}

}  // namespace

std::optional<Fault> survey(const Schedule& schedule, Marks& marks) {
  for (int device = 0; device < schedule.devices(); ++device) {
    const std::vector<Action>& row = row_of(schedule, device);
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      const Action& action = row[entry];
      if (static_cast<int>(action.type) >= action_types)
        return Fault{text("device ", device, ", entry ", entry, ": there is no action ",
                          static_cast<int>(action.type)),
                     device, static_cast<int>(entry)};
      if (auto what = fault_of(schedule, device, action); !what.empty())
        return fault_at(schedule, device, entry, what);
      if (action.overlaps_next) {
        if (auto what = fault_of_pair(row, entry); !what.empty())
          return fault_at(schedule, device, entry, what);
      }
      marks.stages[static_cast<std::size_t>(action.stage)] |= mark(action.type);
      if (action.type == ActionType::recompute) marks.at(action) |= will_recompute;
    }
  }
  for (const Mark of_one : marks.stages) marks.types |= of_one;
  return {};
}

}  // namespace weft::pipeline::detail
