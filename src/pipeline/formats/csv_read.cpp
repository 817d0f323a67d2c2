// Reads PyTorch's CSV. Steps:
//   1. cells as written, in the old dialect if the caller says so or any cell has the word BW
//   2. what B means: the whole backward, or the gradient of the input if the same microbatch has a W
//   3. checks: no action twice, microbatches and stages numbered from 0, each stage in one row
// Sorting the actions makes it O(n log n).

#include <algorithm>
#include <tuple>

#include "pipeline/formats/action_text.hpp"
#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace detail {
namespace {

struct CsvCells {
  std::vector<std::vector<Action>> rows;
  std::vector<std::vector<std::int32_t>> columns;  ///< of each entry, from 1
  bool old_words = false;                          ///< read in the words of before October 2024
};

[[noreturn]] void refuse(std::size_t row, std::int64_t column, const std::string& what,
                         const std::string& advice) {
  throw Error(ErrorKind::usage, text("row ", row + 1, ", column ", column, " of a CSV: ", what), advice);
}

/// An action and where it stands.
struct Placed {
  std::int32_t stage, microbatch;
  ActionType type;
  std::size_t row, entry;

  auto key() const { return std::tuple(stage, microbatch, type, row, entry); }
};

std::string cell_name(const CsvCells& cells, const Placed& one) {
  return text("row ", one.row + 1, ", column ", cells.columns[one.row][one.entry]);
}

/// The actions of microbatches whose type `wanted` accepts, by stage, microbatch and type.
template <class Wanted>
std::vector<Placed> sorted(const CsvCells& cells, Wanted wanted) {
  std::vector<Placed> result;
  for (std::size_t row = 0; row < cells.rows.size(); ++row) {
    for (std::size_t entry = 0; entry < cells.rows[row].size(); ++entry) {
      const Action& action = cells.rows[row][entry];
      if (is_of_microbatch(action.type) && wanted(action.type))
        result.push_back({action.stage, action.microbatch, action.type, row, entry});
    }
  }
  std::ranges::sort(result, {}, &Placed::key);
  return result;
}

void read_cell(CsvCells& cells, std::string_view cell, std::int32_t column, CsvFormat format) {
  const std::size_t row = cells.rows.size() - 1;
  std::vector<Action>& to = cells.rows[row];
  if (cell.empty()) {
    if (format == CsvFormat::compute_comms)
      refuse(row, column, "an empty cell, which compute_comms does not have", "read it as compute_only");
    return;
  }
  const std::size_t before = to.size();
  const Words words = cells.old_words ? Words::before_october_2024 : Words::current;
  const auto unread = read_actions(cell, words, to);
  if (unread) {
    const std::string_view left = cell.substr(unread->at);
    refuse(row, column,
           text("'", cell, "': ", left.empty() ? "the end" : text("'", left, "'"), ", where ",
                unread->expected, " was expected"),
           cells.old_words ? "files with BW are of before October 2024, where B and W are the parts of BW"
                           : "a cell is an action such as 2F0, or empty; BW is of before October 2024");
  }
  for (std::size_t entry = before; entry < to.size(); ++entry) {
    if (has_word(to[entry], format)) continue;
    const bool other = has_word(to[entry], CsvFormat::compute_comms);
    refuse(row, column,
           text(to[entry], other ? " is not a computation" : " is not an action of PyTorch's CSV"),
           other ? "read it as compute_comms" : "weft's text form has it");
  }
  cells.columns[row].resize(to.size(), column);
}

void read_row(CsvCells& cells, std::string_view line, CsvFormat format) {
  cells.rows.emplace_back();
  cells.columns.emplace_back();
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::int32_t column = 1;
  for (std::size_t from = 0; from <= line.size() && !line.empty(); ++column) {
    const std::size_t end = std::min(line.find(',', from), line.size());
    read_cell(cells, line.substr(from, end - from), column, format);
    from = end + 1;
  }
  if (cells.rows.back().empty())
    refuse(cells.rows.size() - 1, 1, "no action in this row", "give each device a row with its actions");
}

std::int64_t actions_of(const CsvCells& cells) {
  std::int64_t actions = 0;
  for (const auto& row : cells.rows) actions += static_cast<std::int64_t>(row.size());
  return actions;
}

const Action* first_of(const CsvCells& cells, ActionType type, std::size_t& row, std::size_t& entry) {
  for (row = 0; row < cells.rows.size(); ++row) {
    const auto found = std::ranges::find(cells.rows[row], type, &Action::type);
    entry = static_cast<std::size_t>(found - cells.rows[row].begin());
    if (found != cells.rows[row].end()) return &*found;
  }
  return nullptr;
}

void rename(CsvCells& cells, ActionType from, ActionType to) {
  for (auto& row : cells.rows) {
    for (Action& action : row) {
      if (action.type == from) action.type = to;
    }
  }
}

/// The index of the first W whose microbatch has a B, which stands before it; 0 if there is none.
std::size_t first_pair(const std::vector<Placed>& parts) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].type == ActionType::backward_weight && parts[i - 1].type == ActionType::backward &&
        parts[i].stage == parts[i - 1].stage && parts[i].microbatch == parts[i - 1].microbatch)
      return i;
  }
  return 0;
}

/// Cells as written.
CsvCells read_cells(std::string_view text, CsvFormat format, Dialect dialect) {
  CsvCells cells;
  cells.old_words =
      dialect == Dialect::before_october_2024 ||
      (dialect == Dialect::detect && text.find("BW") != std::string_view::npos);  // in no other word
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    read_row(cells, text.substr(0, end), format);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (cells.rows.empty()) refuse(0, 1, "the file is empty", "give each device a row with its actions");
  return cells;
}

/// Decides what B means where that takes other cells.
void settle_dialect(CsvCells& cells, Dialect dialect) {
  std::size_t row = 0, entry = 0;
  if (cells.old_words) {
    // Without any W or BW, B is the whole backward.
    const bool split = first_of(cells, ActionType::backward_weight, row, entry) != nullptr ||
                       first_of(cells, ActionType::backward, row, entry) != nullptr;
    if (!split) rename(cells, ActionType::backward_input, ActionType::backward);
    return;
  }
  if (first_of(cells, ActionType::backward_weight, row, entry) == nullptr) return;
  const std::vector<Placed> parts = sorted(cells, [](ActionType type) { return is_backward(type); });
  const std::size_t pair = first_pair(parts);
  const Action* const input = first_of(cells, ActionType::backward_input, row, entry);
  if (pair > 0) {
    const Placed& weight = parts[pair];
    const std::string both = text(cells.rows[weight.row][weight.entry], " beside ",
                                  cells.rows[parts[pair - 1].row][parts[pair - 1].entry], " in ",
                                  cell_name(cells, parts[pair - 1]));
    if (input != nullptr)
      refuse(weight.row, cells.columns[weight.row][weight.entry],
             text(both, " is of before October 2024, and ", *input, " in row ", row + 1, ", column ",
                  cells.columns[row][entry], " is of after it"),
             "write the file in one dialect");
    if (dialect == Dialect::current)
      refuse(weight.row, cells.columns[weight.row][weight.entry], text(both, ", which is the whole backward"),
             "read it as Dialect::before_october_2024");
    rename(cells, ActionType::backward, ActionType::backward_input);
    return;
  }
  if (dialect == Dialect::current || input != nullptr) return;
  first_of(cells, ActionType::backward_weight, row, entry);
  refuse(row, cells.columns[row][entry],
         text(cells.rows[row][entry], " has neither B nor I of its microbatch: what B means cannot be told"),
         "give the dialect");
}

void expect_no_repeats(const CsvCells& cells) {
  const std::vector<Placed> all = sorted(cells, [](ActionType) { return true; });
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Placed &one = all[i], &before = all[i - 1];
    if (one.stage == before.stage && one.microbatch == before.microbatch && one.type == before.type)
      refuse(one.row, cells.columns[one.row][one.entry],
             text(cells.rows[one.row][one.entry], " is already in ", cell_name(cells, before)),
             "every action is done once");
  }
}

int microbatches_of(const CsvCells& cells) {
  const std::int64_t actions = actions_of(cells);
  std::int32_t most = -1;
  for (std::size_t row = 0; row < cells.rows.size(); ++row) {
    for (std::size_t entry = 0; entry < cells.rows[row].size(); ++entry) {
      const Action& action = cells.rows[row][entry];
      if (action.microbatch >= actions)
        refuse(row, cells.columns[row][entry], text(action, " of a file with ", actions, " actions"),
               "number microbatches from 0, one after the other");
      most = std::max(most, action.microbatch);
    }
  }
  return most + 1;
}

/// The device of each stage.
std::vector<int> placement_of(const CsvCells& cells) {
  const std::int64_t actions = actions_of(cells);
  std::vector<int> device_of;
  for (std::size_t row = 0; row < cells.rows.size(); ++row) {
    for (std::size_t entry = 0; entry < cells.rows[row].size(); ++entry) {
      const Action& action = cells.rows[row][entry];
      const auto stage = static_cast<std::size_t>(action.stage);
      // More stages than actions: some have none. A huge number must not size the vector below.
      if (action.stage >= actions)
        refuse(row, cells.columns[row][entry], text(action, " of a file with ", actions, " actions"),
               "number stages from 0, one after the other");
      if (stage >= device_of.size()) device_of.resize(stage + 1, -1);
      if (device_of[stage] >= 0 && device_of[stage] != static_cast<int>(row))
        refuse(row, cells.columns[row][entry],
               text(action, ", and stage ", stage, " is in row ", device_of[stage] + 1, " already"),
               "a stage lies on one device");
      device_of[stage] = static_cast<int>(row);
    }
  }
  const auto missing = std::ranges::find(device_of, -1);
  if (missing != device_of.end())
    throw Error(ErrorKind::usage,
                text("stage ", missing - device_of.begin(), " of 0 to ", device_of.size() - 1,
                     " is in no row of a CSV"),
                "number stages from 0, one after the other");
  return device_of;
}

}  // namespace
}  // namespace detail

Schedule parse_csv(std::string_view text, CsvFormat format, Dialect dialect) {
  detail::CsvCells cells = detail::read_cells(text, format, dialect);
  detail::settle_dialect(cells, dialect);
  detail::expect_no_repeats(cells);
  Schedule schedule{.name = "csv",
                    .microbatches = detail::microbatches_of(cells),
                    .device_of = detail::placement_of(cells),
                    .rows = std::move(cells.rows)};
  return schedule;
}

}  // namespace weft::pipeline
