// Writes PyTorch's CSV: a row per device, a cell per action or overlapping pair.

#include <algorithm>
#include <sstream>

#include "pipeline/formats/action_text.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/csv.hpp"

namespace weft::pipeline {
namespace {

[[noreturn]] void no_word_for(const Action& action, std::size_t device, std::size_t entry, CsvFormat format) {
  const std::string where = text("device ", device, ", entry ", entry, ": ", action);
  if (format == CsvFormat::compute_only && detail::has_word(action, CsvFormat::compute_comms))
    throw Error(ErrorKind::usage, where + " is not a computation", "export it as compute_comms");
  throw Error(ErrorKind::usage, where + " has no word in PyTorch's CSV",
              action.awaits ? "the format has no waits: leave them out, or export the schedule as text"
                            : "export the schedule as text");
}

/// Calls `cell` for each cell of a row: its first entry, and the one or two actions.
template <class Cell>
void each_cell(const Schedule& schedule, std::size_t device, CsvFormat format, Cell cell) {
  const std::span<const Action> row = schedule.rows[device];
  for (std::size_t entry = 0; entry < row.size();) {
    const std::size_t together = detail::written_together(row, entry);
    for (std::size_t i = entry; i < entry + together; ++i) {
      if (!detail::has_word(row[i], format)) no_word_for(row[i], device, i, format);
    }
    cell(entry, row.subspan(entry, together));
    entry += together;
  }
}

}  // namespace

std::string to_csv(const Schedule& schedule, CsvFormat format) {
  std::ostringstream out;
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    each_cell(schedule, device, format, [&](std::size_t entry, std::span<const Action> actions) {
      if (entry > 0) out << ',';
      detail::write_actions(out, actions);
    });
    out << '\n';
  }
  return std::move(out).str();
}

std::string to_csv(const Schedule& schedule, const std::vector<std::vector<Nanoseconds>>& begins,
                   Nanoseconds slot) {
  if (slot < 1) throw Error(ErrorKind::usage, text("a slot of ", slot, " ns"), "give 1 or more");
  if (begins.size() != schedule.rows.size())
    throw Error(ErrorKind::usage,
                text("begins of ", begins.size(), " rows, and ", schedule.rows.size(), " devices"),
                "give those of this schedule's prediction");
  std::ostringstream out;
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const std::vector<Nanoseconds>& times = begins[device];
    if (times.size() != schedule.rows[device].size())
      throw Error(ErrorKind::usage,
                  text("device ", device, ": ", times.size(), " begins of ", schedule.rows[device].size(),
                       " entries"),
                  "predict with Keep::times");
    Nanoseconds column = 0;
    each_cell(schedule, device, CsvFormat::compute_only,
              [&](std::size_t entry, std::span<const Action> actions) {
                const Nanoseconds begins_in = std::max(column, times[entry] / slot);
                if (entry > 0) out << ',';
                for (; column < begins_in; ++column) out << ',';
                detail::write_actions(out, actions);
                ++column;
              });
    out << '\n';
  }
  return std::move(out).str();
}

Schedule without_awaits(Schedule schedule) {
  for (auto& row : schedule.rows) std::erase_if(row, [](const Action& action) { return action.awaits; });
  return schedule;
}

}  // namespace weft::pipeline
