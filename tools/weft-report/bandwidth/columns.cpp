#include "weft-report/bandwidth/columns.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "weft-report/bandwidth/words.hpp"

namespace weft::report::bandwidth {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::int64_t largest_size = std::int64_t{1} << 56;
constexpr double longest_time = 1e12;
constexpr double highest_bandwidth = 1e7;
constexpr std::size_t least_blank = 30;  // of the half that was not measured

Words words_of(std::string_view line) {
  Words words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

Column column_named(std::string_view name, bool milliseconds) {
  constexpr std::array<std::pair<std::string_view, Column>, 14> names{{{"size", Column::bytes},
                                                                       {"bytes", Column::bytes},
                                                                       {"type", Column::dtype},
                                                                       {"redop", Column::redop},
                                                                       {"op", Column::redop},
                                                                       {"root", Column::root},
                                                                       {"time", Column::microseconds},
                                                                       {"cputime", Column::microseconds},
                                                                       {"algbw", Column::algbw},
                                                                       {"busbw", Column::busbw},
                                                                       {"#wrong", Column::wrong},
                                                                       {"error", Column::other},
                                                                       {"res", Column::other},
                                                                       {"timestamp", Column::stamp}}};
  const auto found = std::ranges::find(names, name, &std::pair<std::string_view, Column>::first);
  if (found == names.end()) return Column::other;
  return milliseconds && found->second == Column::microseconds ? Column::milliseconds : found->second;
}

bool is_time(Column column) {
  return column == Column::microseconds || column == Column::milliseconds;
}

std::optional<std::int64_t> whole_within(std::string_view word, std::int64_t least, std::int64_t most) {
  const auto value = number_of<std::int64_t>(word);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}
bool is_name(std::string_view word) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz";
  return !word.empty() && word.size() <= 16 && letters.find(word[0]) != std::string_view::npos &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

/// Takes a value of a measurement. @return false for one that none is
bool take_value(Column column, std::string_view word, Measured& measured) {
  if (column == Column::other || column == Column::stamp) return true;
  if (column == Column::wrong && word == "N/A") return true;
  const auto value = number_of<double>(word);
  if (!value || !std::isfinite(*value) || *value < 0) return false;
  switch (column) {
    case Column::microseconds:
    case Column::milliseconds:
      measured.microseconds = column == Column::milliseconds ? *value * 1000 : *value;
      return measured.microseconds > 0 && measured.microseconds < longest_time;
    case Column::algbw:
      measured.algbw = *value;
      return *value < highest_bandwidth;
    case Column::busbw:
      measured.busbw = *value;
      return *value < highest_bandwidth;
    default:
      measured.wrong = *value < 9e18 ? static_cast<std::int64_t>(*value) : largest_size;
      return true;
  }
}

/// Takes a value that belongs to the whole row.
bool take_value(Column column, std::string_view word, Row& row) {
  if (column == Column::bytes) {
    if (const auto tag = word.find_last_of(":>])"); tag != std::string_view::npos)
      word.remove_prefix(tag + 1);
    const auto bytes = whole_within(word, 0, largest_size);
    row.bytes = bytes.value_or(0);
    return bytes.has_value();
  }
  if (column == Column::root) {
    const auto root = whole_within(word, -1, 1 << 24);
    row.root = root.value_or(-1);
    return root.has_value();
  }
  if (column != Column::dtype && column != Column::redop)
    return whole_within(word, 0, largest_size).has_value();
  if (!is_name(word)) return false;
  (column == Column::dtype ? row.dtype : row.redop) = word == "none" ? "" : std::string(word);
  return true;
}

/// Columns before the first measurement, of one measurement, and behind both.
struct Parts {
  std::size_t head = 0;
  std::size_t half = 0;
  std::size_t tail = 0;
};
Parts parts_of(const Columns& columns) {
  const auto first = std::ranges::find_if(columns, is_time);
  const auto second = first == columns.end() ? first : std::find_if(first + 1, columns.end(), is_time);
  Parts parts{.head = static_cast<std::size_t>(first - columns.begin()),
              .half = static_cast<std::size_t>(second - first)};
  parts.tail = columns.size() - std::min(columns.size(), parts.head + 2 * parts.half);
  return parts;
}

/// What may stand behind both: a time stamp of two words, or the comparisons of weft-bench --against, "mpi out  ratio".
bool make_tail(const Words& words, std::size_t begin, Columns& columns) {
  if (begin > words.size()) return false;
  columns.resize(begin);
  const std::size_t count = words.size() - begin;
  const bool compared = count % 3 == 0;
  for (std::size_t i = begin + 2; compared && i < words.size(); i += 3) {
    if (words[i] != "ratio") return false;
    columns.insert(columns.end(), {Column::other, Column::other});
  }
  if (count == 1 && words.back() == "timestamp")
    columns.insert(columns.end(), {Column::stamp, Column::stamp});
  return compared || (count == 1 && words.back() == "timestamp");
}

std::optional<Measured> measured_of(std::span<const std::string_view> words,
                                    std::span<const Column> columns) {
  Measured measured;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!take_value(columns[i], words[i], measured)) return std::nullopt;
  }
  return measured;
}

}  // namespace

std::optional<Columns> columns_of(std::string_view line) {
  const Words words = words_of(line);
  if (words.size() < 10 || (words[0] != "size" && words[0] != "bytes")) return std::nullopt;
  Columns columns;
  for (const std::string_view word : words) columns.push_back(column_named(word, words[0] == "bytes"));
  const Parts parts = parts_of(columns);
  if (std::ranges::count_if(columns, is_time) != 2 || parts.half < 4) return std::nullopt;
  if (!make_tail(words, parts.head + 2 * parts.half, columns)) return std::nullopt;
  const auto half = columns.begin() + static_cast<std::ptrdiff_t>(parts.head);
  const auto length = static_cast<std::ptrdiff_t>(parts.half);
  if (!std::equal(half, half + length, half + length)) return std::nullopt;
  return columns;
}

const Columns& usual_columns() {
  static const Columns usual =
      *columns_of("size count type redop root time algbw busbw #wrong time algbw busbw #wrong");
  return usual;
}

std::optional<Row> row_of(std::string_view line, const Columns& columns) {
  const Parts parts = parts_of(columns);
  const Words words = words_of(line);
  const std::size_t whole_row = parts.head + 2 * parts.half + parts.tail;
  const std::size_t short_row = whole_row - parts.half;
  const auto read = [&](std::size_t count) -> std::optional<Row> {
    if (words.size() < count) return std::nullopt;
    const std::span<const std::string_view> row_words = std::span(words).last(count);
    Row row;
    for (std::size_t i = 0; i < parts.head; ++i) {
      if (!take_value(columns[i], row_words[i], row)) return std::nullopt;
    }
    const std::span<const Column> half = std::span(columns).subspan(parts.head, parts.half);
    const std::string_view before = row_words[parts.head - 1];
    const std::string_view first = row_words[parts.head];
    if (count == whole_row) {
      row.out_of_place = measured_of(row_words.subspan(parts.head, parts.half), half);
      row.in_place = measured_of(row_words.subspan(parts.head + parts.half, parts.half), half);
      return row.out_of_place && row.in_place ? std::optional(row) : std::nullopt;
    }
    const auto blank = static_cast<std::size_t>(first.data() - before.data()) - before.size();
    row.in_place = measured_of(row_words.subspan(parts.head, parts.half), half);
    return row.in_place && blank >= least_blank ? std::optional(row) : std::nullopt;
  };
  if (auto row = read(whole_row)) return row;
  return read(short_row);
}

}  // namespace weft::report::bandwidth
