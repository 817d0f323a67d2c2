#pragma once
// What the passes share: an editor that puts entries into a row, and the checks of a pass's input.

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// Puts entries between those of a row, which keep their order. At one place, entries added after() the entry
/// on the left precede those added before() the entry on the right; within each, the first added comes first.
class RowEditor {
 public:
  /// @param row outlives the editor
  explicit RowEditor(const std::vector<Action>& row) : row_(row) {}

  /// The place before an entry, or before the pair that it is in; row.size() is the end.
  std::size_t place_before(std::size_t entry) const;
  /// The place after an entry, or after the pair that it is in.
  std::size_t place_after(std::size_t entry) const;

  void before(std::size_t entry, const Action& action) { add(2 * place_before(entry) + 1, action); }
  void after(std::size_t entry, const Action& action) { add(2 * place_after(entry), action); }
  void at_end(const Action& action) { before(row_.size(), action); }

  /// The row with all that was added. Linear.
  std::vector<Action> edited() const;

 private:
  struct Added {
    std::size_t key;  ///< twice the place, plus 1 for an entry added before()
    Action action;
  };
  void add(std::size_t key, const Action& action) { added_.push_back({key, action}); }

  const std::vector<Action>& row_;
  std::vector<Added> added_;
};

/// The same schedule with empty rows.
Schedule with_empty_rows(const Schedule& schedule);

/// Where a row has its computations: F, B, I, W and RECOMPUTE.
std::vector<std::size_t> computations_of(const std::vector<Action>& row);
/// The entry of the k-th computation, from 0; that of the first if k is below 0.
std::size_t computation_at(const std::vector<std::size_t>& computations, std::int64_t k);

/// @throws Error (usage) if an entry names a stage that its device does not have, a microbatch that does not
/// exist, or one of `types`, which the pass is about to add
void expect_without(const Schedule& schedule, std::initializer_list<ActionType> types);
/// @throws Error (usage) if `value` is below 0
void expect_count(const char* option, int value);
/// One flag per stage: whether it is in `stages`. @throws Error (usage) if one of them does not exist
std::vector<bool> marked(const Schedule& schedule, const std::vector<int>& stages);

}  // namespace weft::pipeline::detail
