#pragma once
// What the parts of the verifier share. Of each stage and microbatch one 32-bit word says which actions were
// posted or ran (the low half) and which were awaited (the high half); of each stage a StageState says more.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/error.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::pipeline::detail {

using Mark = std::uint32_t;

/// The bit of an action of this type that ran or was posted.
constexpr Mark mark(ActionType type) {
  return Mark{1} << static_cast<int>(type);
}
/// The bit of one that was awaited.
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
/// The bit of a stage and microbatch whose row has a RECOMPUTE anywhere.
constexpr Mark will_recompute = Mark{1} << 15;

struct Marks {
  explicit Marks(const Schedule& schedule)
      : microbatches(static_cast<std::size_t>(schedule.microbatches)),
        stages(schedule.device_of.size()),
        of(stages.size() * microbatches) {}
  Mark* row(int stage) { return of.data() + static_cast<std::size_t>(stage) * microbatches; }
  Mark& at(const Action& action) { return row(action.stage)[static_cast<std::size_t>(action.microbatch)]; }

  std::size_t microbatches;
  std::vector<Mark> stages;  ///< of each stage, the types of its entries
  std::vector<Mark> of;      ///< what was seen of each microbatch, stage after stage
  Mark types = 0;            ///< of all entries
};

enum class Parameters : std::uint8_t { always_whole, sharded, gathering, whole };

/// What the verifier knows of a stage while it goes through the row of its device.
struct StageState {
  Parameters parameters = Parameters::always_whole;
  Mark marks = 0;  ///< of its entries without a microbatch
  int ended = 0;   ///< microbatches whose last backward ran
  Bytes activation = 0, kept_for_weight = 0;
  /// Where its input and the gradient of its output come from.
  enum From : std::uint8_t { nowhere, this_device, another } input = nowhere, gradient = nowhere;

  /// The bytes that a microbatch holds, on the device or offloaded, once it was `seen` so far.
  Bytes held(Mark seen) const {
    return (seen & mark(ActionType::backward_input)) != 0 ? kept_for_weight : activation;
  }
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

/// Checks what a row alone shows, and fills in marks.of.
std::optional<Fault> check_rows(const Schedule& schedule, const Problem& problem, Marks& marks);
/// Checks that nothing is missing at the end of a device's row, and that all that was posted was awaited.
std::optional<Fault> check_row_ends(const Schedule& schedule, Marks& marks, int device,
                                    const std::vector<StageState>& stages);
/// Checks that the k-th send meets the k-th receive, for rows that each have all theirs once.
std::optional<Fault> check_pairs(const Schedule& schedule);
/// Checks that rows whose transfers pair can be executed to their ends.
std::optional<Fault> check_progress(const Schedule& schedule, bool has_transfers);

}  // namespace weft::pipeline::detail
