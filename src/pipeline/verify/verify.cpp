// The verifier, in five steps: the shape of schedule and problem, each entry by itself, each row by itself
// (order, memory, its end), the transfers of two rows against each other, and whether all rows can be
// executed to their ends. Each step relies on the steps before it. Linear in entries.

#include "weft/pipeline/verify.hpp"

#include "pipeline/verify/marks.hpp"

namespace weft::pipeline {
namespace {

using namespace detail;

std::optional<Fault> whole(const std::string& what) {
  return Fault{.what = what};
}

/// Checks that schedule and problem have the same devices, stages and microbatches.
std::optional<Fault> check_shape(const Schedule& schedule, const Problem& problem) {
  if (schedule.devices() != problem.devices)
    return whole(text("rows for ", schedule.devices(), " devices, and a problem of ", problem.devices));
  if (schedule.stages() != problem.stages())
    return whole(text("a placement of ", schedule.stages(), " stages, and costs of ", problem.stages()));
  if (schedule.microbatches != problem.microbatches || schedule.microbatches < 1)
    return whole(text(schedule.microbatches, " microbatches, and a problem of ", problem.microbatches));
  if (!problem.memory_limit.empty() && problem.memory_limit.size() != schedule.rows.size())
    return whole(text(problem.memory_limit.size(), " memory limits for ", schedule.devices(), " devices"));
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int device = device_of(schedule, stage);
    if (device < 0 || device >= schedule.devices())
      return whole(text("stage ", stage, " is placed on device ", device, " of ", schedule.devices()));
  }
  return {};
}

constexpr Mark can_be_awaited = any_transfer | mark(ActionType::unshard) |
                                mark(ActionType::reduce_gradients) | mark(ActionType::offload) |
                                mark(ActionType::load);
constexpr Mark of_stage =
    mark(ActionType::unshard) | mark(ActionType::reshard) | mark(ActionType::reduce_gradients);

/// What is wrong with an entry by itself; empty if nothing.
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

/// What is wrong with an entry that overlaps the next; empty if nothing.
std::string fault_of_pair(const std::vector<Action>& row, std::size_t entry) {
  const Action& forward = row[entry];
  if (forward.type != ActionType::forward) return "only a forward overlaps what is next";
  if (entry + 1 == row.size()) return "overlaps the next, which is not there";
  const Action& next = row[entry + 1];
  const bool is_backward = (mark(next.type) & (any_backward | any_end)) != 0 && !next.awaits;
  if (!is_backward) return text("overlaps ", next, ", which is not a backward");
  if (next.stage == forward.stage && next.microbatch == forward.microbatch)
    return text("overlaps ", next, ", which needs it");
  return {};
}

/// Checks that every entry names a stage and a microbatch that exist; fills in marks.stages, types and
/// will_recompute.
std::optional<Fault> check_entries(const Schedule& schedule, Marks& marks) {
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

}  // namespace

std::optional<Fault> find_fault(const Schedule& schedule, const Problem& problem) {
  if (auto fault = check_shape(schedule, problem)) return fault;
  bool has_transfers = false;
  {
    Marks marks(schedule);
    if (auto fault = check_entries(schedule, marks)) return fault;
    if (auto fault = check_rows(schedule, problem, marks)) return fault;
    has_transfers = (marks.types & any_transfer) != 0;
  }
  if (has_transfers) {
    if (auto fault = check_pairs(schedule)) return fault;
  }
  return check_progress(schedule, has_transfers);
}

void verify(const Schedule& schedule, const Problem& problem) {
  if (const auto fault = find_fault(schedule, problem))
    throw Error(ErrorKind::usage, text("schedule '", schedule.name, "': ", fault->what),
                "it cannot be executed as it is; correct the entry, or draw it up anew");
}

std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << fault.what;
}

}  // namespace weft::pipeline
