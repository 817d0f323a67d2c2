#pragma once
// What the parts of the verifier have in common: what was seen of each stage and microbatch, in a word each.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/error.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::pipeline::detail {

using Mark = std::uint32_t;

/// That an action of this type ran or was posted.
constexpr Mark mark(ActionType type) {
  return Mark{1} << static_cast<int>(type);
}
/// That it was awaited.
constexpr Mark mark_awaited(ActionType type) {
  return mark(type) << 16;
}
inline Mark mark(const Action& action) {
  return action.awaits ? mark_awaited(action.type) : mark(action.type);
}
constexpr Mark any_backward = mark(ActionType::backward) | mark(ActionType::backward_input);
constexpr Mark any_end = mark(ActionType::backward) | mark(ActionType::backward_weight);
constexpr Mark any_transfer = mark(ActionType::send_forward) | mark(ActionType::receive_forward) |
                              mark(ActionType::send_backward) | mark(ActionType::receive_backward);
/// Of a stage and microbatch whose row has a RECOMPUTE anywhere.
constexpr Mark will_recompute = Mark{1} << 15;

struct Marks {
  explicit Marks(const Schedule& schedule)
      : microbatches(static_cast<std::size_t>(schedule.microbatches)),
        stages(schedule.device_of.size()),
        of(stages.size() * microbatches) {}
  Mark* row(int stage) { return of.data() + static_cast<std::size_t>(stage) * microbatches; }
  Mark& at(const Action& action) { return row(action.stage)[static_cast<std::size_t>(action.microbatch)]; }

  std::size_t microbatches;
  std::vector<Mark> stages;  ///< types that any of a stage's entries has
  std::vector<Mark> of;      ///< stage after stage, what was seen of each microbatch
  Mark types = 0;            ///< of all entries
};

inline int device_of(const Schedule& schedule, int stage) {
  return schedule.device_of[static_cast<std::size_t>(stage)];
}
inline const std::vector<Action>& row_of(const Schedule& schedule, int device) {
  return schedule.rows[static_cast<std::size_t>(device)];
}
inline const Action& entry_of(const Schedule& schedule, int device, std::size_t entry) {
  return row_of(schedule, device)[entry];
}

template <class... Parts>
Fault fault_at(const Schedule& schedule, int device, std::size_t entry, const Parts&... parts) {
  return {
      text("device ", device, ", entry ", entry, " (", entry_of(schedule, device, entry), "): ", parts...),
      device, static_cast<int>(entry)};
}

/// That every entry is of a stage there and a microbatch there is; fills in marks.stages, types and
/// will_recompute.
std::optional<Fault> survey(const Schedule& schedule, Marks& marks);
/// What a row alone shows: fills in marks.of.
std::optional<Fault> check_rows(const Schedule& schedule, const Problem& problem, Marks& marks);
/// The k-th send against the k-th receive, for rows that each have all theirs once.
std::optional<Fault> check_pairs(const Schedule& schedule);
/// Whether rows, right each by itself and with one another's transfers, can be executed to their ends.
std::optional<Fault> check_progress(const Schedule& schedule, bool has_transfers);

}  // namespace weft::pipeline::detail
