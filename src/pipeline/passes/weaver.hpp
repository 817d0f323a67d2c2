#pragma once
// What passes share: a row into which entries are put, and what they refuse.

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// Puts entries between those of a row, which keep their order. At one place, what comes after an entry
/// stands before what comes before the next; of these, what was added first stands first.
class Weaver {
 public:
  /// @param row outlives the weaver
  explicit Weaver(const std::vector<Action>& row) : row_(row) {}

  /// The place before an entry, or before the pair that it is in; row.size() is the end.
  std::size_t place_before(std::size_t entry) const;
  /// The place after an entry, or after the pair that it is in.
  std::size_t place_after(std::size_t entry) const;

  void before(std::size_t entry, const Action& action) { add(2 * place_before(entry) + 1, action); }
  void after(std::size_t entry, const Action& action) { add(2 * place_after(entry), action); }
  void at_end(const Action& action) { before(row_.size(), action); }

  std::vector<Action> woven() const;

 private:
  struct Added {
    std::size_t key;  ///< twice the place, and 1 more for what comes before an entry
    Action action;
  };
  void add(std::size_t key, const Action& action) { added_.push_back({key, action}); }

  const std::vector<Action>& row_;
  std::vector<Added> added_;
};

/// The same, with rows that are empty.
Schedule frame_of(const Schedule& schedule);

/// F, B, I, W and RECOMPUTE.
bool is_work(ActionType type);
/// Entries of a row that are work.
std::vector<std::size_t> works_of(const std::vector<Action>& row);
/// The k-th work, counted from the first; the first where k is below 0.
std::size_t work_at(const std::vector<std::size_t>& works, std::int64_t k);

/// @throws Error (usage) unless every entry is of a stage of its device and a microbatch there is, or where
/// an entry is of one of `types`, which the pass adds
void expect_without(const Schedule& schedule, std::initializer_list<ActionType> types);
/// @throws Error (usage) where it is below 0
void expect_count(const char* option, int value);
/// Marks these stages. @throws Error (usage) where one is not there
std::vector<bool> marked(const Schedule& schedule, const std::vector<int>& stages);

}  // namespace weft::pipeline::detail
