// The two grids for a terminal: by time (TimeGrid) and by entries. By time, the scale is the finest in which
// all labels fit; where the width does not allow that, the whole makespan is scaled to the width.

#include "weft/pipeline/grid.hpp"

#include <algorithm>

#include "pipeline/simulate/prediction.hpp"
#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

constexpr int least_grid_width = 40;

/// "device 12 |", equally long for every device.
std::string head(const Schedule& schedule, std::size_t device) {
  const std::size_t digits = text(schedule.rows.size() - 1).size();
  std::string number = text(device);
  number.insert(0, digits - std::min(digits, number.size()), ' ');
  return text("device ", number, " |");
}

std::size_t columns_of(const Schedule& schedule, const GridOptions& options) {
  if (options.width < least_grid_width)
    throw Error(ErrorKind::usage, text("a grid of ", options.width, " characters"),
                text("give a width of ", least_grid_width, " or more"));
  return static_cast<std::size_t>(options.width) - head(schedule, 0).size();
}

bool marks(const GridOptions& options, std::size_t device) {
  return options.fault != nullptr && options.fault->device == static_cast<int>(device);
}

/// A line that points to `length` characters above and says what is wrong there: to the right of the arrows,
/// or to the left where the line would get too long.
std::string pointer(const Fault& fault, std::size_t at, std::size_t length, std::size_t width) {
  const std::string arrows(std::max<std::size_t>(length, 1), '^');
  if (at + arrows.size() + 1 + fault.what.size() > width && at > fault.what.size())
    return std::string(at - fault.what.size() - 1, ' ') + fault.what + ' ' + arrows + '\n';
  return std::string(at, ' ') + arrows + ' ' + fault.what + '\n';
}

/// The fault below the grid, if it belongs to no row.
std::string said_below(const GridOptions& options) {
  return options.fault != nullptr && options.fault->device < 0 ? options.fault->what + '\n' : std::string();
}

class TimeGrid {
 public:
  TimeGrid(const Schedule& schedule, const Prediction& prediction, const GridOptions& options)
      : schedule_(schedule),
        prediction_(prediction),
        options_(options),
        columns_(columns_of(schedule, options)) {
    std::vector<int> chunks(schedule.rows.size());
    for (const int device : schedule.device_of) {
      const auto index = static_cast<std::size_t>(device);
      second_.push_back(index < chunks.size() && chunks[index]++ % 2 == 1);
    }
    set_scale();
  }

  std::string draw() const {
    std::string result;
    for (std::size_t device = 0; device < schedule_.rows.size(); ++device) {
      const std::string begin = head(schedule_, device);
      result += begin + row(device) + '\n';
      if (!marks(options_, device)) continue;
      const auto entry = static_cast<std::size_t>(std::max(options_.fault->entry, 0));
      const bool has_times = entry < schedule_.rows[device].size();
      const std::size_t from = has_times ? column(prediction_.begins[device][entry]) : 0;
      const std::size_t to = has_times ? column(prediction_.ends[device][entry]) : 0;
      result +=
          pointer(*options_.fault, begin.size() + from, to - from, static_cast<std::size_t>(options_.width));
    }
    const auto time = [&](Nanoseconds value) {
      return text(static_cast<double>(value) / options_.unit, options_.unit_name);
    };
    result += text("0 to ", time(prediction_.makespan), ", ", time(ns_), " in ", in_columns_,
                   in_columns_ == 1 ? " column\n" : " columns\n");
    return result + said_below(options_);
  }

 private:
  /// `ns_` nanoseconds take `in_columns_` columns. The shortest block gets the columns of the longest label,
  /// or as many as the width allows; where that is none, all columns share the makespan.
  void set_scale() {
    Nanoseconds shortest = std::max<Nanoseconds>(prediction_.makespan, 1);
    std::size_t longest = 1;
    for (std::size_t device = 0; device < schedule_.rows.size(); ++device) {
      for_blocks(device, [&](Nanoseconds from, Nanoseconds to, const std::string& label) {
        shortest = std::min(shortest, to - from);
        longest = std::max(longest, label.size());
      });
    }
    const Nanoseconds all = std::max<Nanoseconds>(prediction_.makespan, 1);
    const auto columns = static_cast<Nanoseconds>(columns_), wide = static_cast<Nanoseconds>(longest + 1);
    ns_ = shortest;
    in_columns_ = wide;
    for (; in_columns_ > 1 && all > columns / in_columns_ * shortest; --in_columns_) {
    }
    if (all > columns / in_columns_ * shortest) {
      ns_ = (all + columns - 1) / columns;
      in_columns_ = 1;
    }
  }

  std::size_t column(Nanoseconds time) const {
    const Nanoseconds whole = time / ns_ * in_columns_;
    return static_cast<std::size_t>(whole + time % ns_ * in_columns_ / ns_);
  }

  std::string label(const Action& action) const {
    char letter = action.type == ActionType::recompute ? 'R' : name(action.type)[0];
    const auto stage = static_cast<std::size_t>(action.stage);
    if (stage < second_.size() && second_[stage]) letter = static_cast<char>(letter - 'A' + 'a');
    return text(letter, action.microbatch);
  }

  template <class Draw>
  void for_blocks(std::size_t device, Draw draw) const {
    const std::vector<Action>& row = schedule_.rows[device];
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      if (!is_compute(row[entry].type) && row[entry].type != ActionType::recompute) continue;
      const Nanoseconds from = prediction_.begins[device][entry];
      Nanoseconds to = prediction_.ends[device][entry];
      std::string what = label(row[entry]);
      for (; row[entry].overlaps_next && entry + 1 < row.size(); ++entry) {
        what += label(row[entry + 1]);
        to = std::max(to, prediction_.ends[device][entry + 1]);
      }
      if (to > from) draw(from, to, what);
    }
  }

  std::string row(std::size_t device) const {
    std::string line(column(prediction_.makespan), '.');
    for_blocks(device, [&](Nanoseconds begin, Nanoseconds end, const std::string& what) {
      const std::size_t from = column(begin), to = std::min(column(end), line.size());
      if (from >= to) return;
      std::string shown = what.size() <= to - from ? what : what.substr(0, 1);
      shown.resize(to - from, ' ');
      line.replace(from, to - from, shown);
    });
    return line;
  }

  const Schedule& schedule_;
  const Prediction& prediction_;
  const GridOptions& options_;
  const std::size_t columns_;
  std::vector<bool> second_;  // of each stage: whether it is the second, fourth ... chunk of its device
  Nanoseconds ns_ = 1, in_columns_ = 1;
};

std::string entry_label(const Action& action) {
  return text(action, action.overlaps_next ? "+" : "");
}

}  // namespace

std::string grid(const Schedule& schedule, const Prediction& prediction, const GridOptions& options) {
  detail::expect_times(schedule, prediction);
  return TimeGrid(schedule, prediction, options).draw();
}

std::string grid(const Schedule& schedule, const GridOptions& options) {
  std::size_t cell = 1, longest = 0;
  for (const auto& row : schedule.rows) {
    longest = std::max(longest, row.size());
    for (const Action& action : row) cell = std::max(cell, entry_label(action).size() + 1);
  }
  const std::size_t shown = std::max<std::size_t>(columns_of(schedule, options) / cell, 1);
  const auto marked =
      static_cast<std::size_t>(options.fault != nullptr ? std::max(options.fault->entry, 0) : 0);
  const std::size_t first =
      std::min(marked - std::min(marked, shown / 2), longest - std::min(longest, shown));
  std::string result;
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const std::vector<Action>& row = schedule.rows[device];
    std::string line = head(schedule, device);
    const std::size_t begin = line.size();
    for (std::size_t entry = first; entry < std::min(row.size(), first + shown); ++entry) {
      std::string one = entry_label(row[entry]);
      one.resize(cell, ' ');
      line += one;
    }
    result += line + '\n';
    if (!marks(options, device)) continue;
    const std::size_t length = marked < row.size() ? entry_label(row[marked]).size() : 1;
    result += pointer(*options.fault, begin + (marked - first) * cell, length,
                      static_cast<std::size_t>(options.width));
  }
  result += text("entries ", first, " to ", std::max(std::min(longest, first + shown), first + 1) - 1, " of ",
                 longest, "\n");
  return result + said_below(options);
}

}  // namespace weft::pipeline
