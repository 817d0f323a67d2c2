#include "pipeline/passes/row_editor.hpp"

#include <algorithm>

#include "weft/core/error.hpp"

namespace weft::pipeline::detail {
namespace {

[[noreturn]] void refuse(int device, std::size_t entry, const Action& action, const std::string& what) {
  throw Error(ErrorKind::usage, text("device ", device, ", entry ", entry, " (", action, "): ", what),
              "passes take schedules that verify takes, and each only once");
}

}  // namespace

std::size_t RowEditor::place_before(std::size_t entry) const {
  return entry > 0 && row_[entry - 1].overlaps_next ? entry - 1 : entry;
}

std::size_t RowEditor::place_after(std::size_t entry) const {
  return row_[entry].overlaps_next ? entry + 2 : entry + 1;
}

std::vector<Action> RowEditor::edited() const {
  // A counting sort keeps it linear: begin[key] is where the actions of that key begin.
  std::vector<std::size_t> begin(2 * row_.size() + 3);
  for (const Added& one : added_) ++begin[one.key + 1];
  for (std::size_t key = 1; key < begin.size(); ++key) begin[key] += begin[key - 1];
  std::vector<Action> sorted(added_.size());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  for (const Added& one : added_) sorted[next[one.key]++] = one.action;

  std::vector<Action> result;
  result.reserve(row_.size() + added_.size());
  for (std::size_t entry = 0; entry <= row_.size(); ++entry) {
    for (std::size_t i = begin[2 * entry]; i < begin[2 * entry + 2]; ++i) result.push_back(sorted[i]);
    if (entry < row_.size()) result.push_back(row_[entry]);
  }
  return result;
}

Schedule with_empty_rows(const Schedule& schedule) {
  return {.name = schedule.name,
          .microbatches = schedule.microbatches,
          .device_of = schedule.device_of,
          .rows = std::vector<std::vector<Action>>(schedule.rows.size())};
}

std::vector<std::size_t> computations_of(const std::vector<Action>& row) {
  std::vector<std::size_t> result;
  for (std::size_t entry = 0; entry < row.size(); ++entry) {
    if (is_compute(row[entry].type) || row[entry].type == ActionType::recompute) result.push_back(entry);
  }
  return result;
}

std::size_t computation_at(const std::vector<std::size_t>& computations, std::int64_t k) {
  return computations[static_cast<std::size_t>(std::max<std::int64_t>(k, 0))];
}

void expect_without(const Schedule& schedule, std::initializer_list<ActionType> types) {
  for (const int device : schedule.device_of) {
    if (device < 0 || device >= schedule.devices())
      throw Error(ErrorKind::usage, text("a stage is placed on device ", device, " of ", schedule.devices()),
                  "passes take schedules that verify takes");
  }
  for (int device = 0; device < schedule.devices(); ++device) {
    const std::vector<Action>& row = schedule.rows[static_cast<std::size_t>(device)];
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      const Action& action = row[entry];
      if (action.stage < 0 || action.stage >= schedule.stages() ||
          schedule.device_of[static_cast<std::size_t>(action.stage)] != device)
        refuse(device, entry, action, "the device has no such stage");
      if (is_of_microbatch(action.type) &&
          (action.microbatch < 0 || action.microbatch >= schedule.microbatches))
        refuse(device, entry, action, text("there are ", schedule.microbatches, " microbatches"));
      if (action.overlaps_next && entry + 1 == row.size())
        refuse(device, entry, action, "overlaps the next, which is not there");
      for (const ActionType type : types) {
        if (action.type == type) refuse(device, entry, action, "is there before the pass that adds such");
      }
    }
  }
}

void expect_count(const char* option, int value) {
  if (value < 0)
    throw Error(ErrorKind::usage, text(option, " is ", value), "give a number of computations, 0 or more");
}

std::vector<bool> marked(const Schedule& schedule, const std::vector<int>& stages) {
  std::vector<bool> result(schedule.device_of.size());
  for (const int stage : stages) {
    if (stage < 0 || stage >= schedule.stages())
      throw Error(ErrorKind::usage, text("stage ", stage, " of ", schedule.stages()),
                  "name stages there are");
    result[static_cast<std::size_t>(stage)] = true;
  }
  return result;
}

}  // namespace weft::pipeline::detail
