#include "weft-report/tuner/rows.hpp"

#include <algorithm>
#include <charconv>

namespace weft::tuner {
namespace {

constexpr std::size_t fewest_columns = 8;
constexpr std::size_t most_columns = 10;
constexpr std::size_t most_shown = 40;
/// The example's "covers all sizes".
constexpr std::uint64_t four_gigabytes = 4294967295;

constexpr std::array<const char*, most_columns> columns{"collective", "min_bytes", "max_bytes", "algorithm",
                                                        "protocol",   "channels",  "nNodes",    "nRanks",
                                                        "numPipeOps", "regBuff"};

bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\r';
}

std::string_view trimmed(std::string_view words) {
  while (!words.empty() && is_blank(words.front())) words.remove_prefix(1);
  while (!words.empty() && is_blank(words.back())) words.remove_suffix(1);
  if (words.size() >= 2 && words.front() == '"' && words.back() == '"')
    words = words.substr(1, words.size() - 2);
  return words;
}

std::string shown(std::string_view words) {
  std::string result(words.substr(0, most_shown));
  std::ranges::replace_if(
      result, [](unsigned char letter) { return letter < 0x20 || letter >= 0x7f; }, '?');
  return "'" + result + (words.size() > most_shown ? "...'" : "'");
}

/// What a spreadsheet leaves behind the last column is dropped.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    cells.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  while (!cells.empty() && cells.back().empty()) cells.pop_back();
  return cells;
}

/// Reads one row; `problem` is what is wrong with its first bad cell.
class Reader {
 public:
  explicit Reader(const std::vector<std::string_view>& cells) : cells_(cells) {}

  template <std::size_t Count>
  int named(std::size_t column, const std::array<std::string_view, Count>& names) {
    const auto one = std::ranges::find(names, cells_[column]);
    if (one != names.end()) return static_cast<int>(one - names.begin());
    std::string allowed;
    for (const std::string_view name : names) allowed += (allowed.empty() ? "" : ", ") + std::string(name);
    complain(column, "allowed are " + allowed);
    return 0;
  }

  std::int64_t number(std::size_t column, std::int64_t least, std::int64_t most, const char* allowed) {
    const std::string_view cell = cells_[column];
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error == std::errc() && end == cell.data() + cell.size() && value >= least && value <= most)
      return value;
    complain(column, allowed);
    return least;
  }

  int count(std::size_t column) {
    if (column >= cells_.size()) return any;
    const std::int64_t value = number(column, any, INT32_MAX, "allowed is a number from 1, or -1 for any");
    if (value == 0) complain(column, "allowed is a number from 1, or -1 for any");
    return static_cast<int>(value);
  }

  const std::string& problem() const { return problem_; }

 private:
  void complain(std::size_t column, const std::string& allowed) {
    if (problem_.empty()) problem_ = columns[column] + (" is " + shown(cells_[column])) + ": " + allowed;
  }

  const std::vector<std::string_view>& cells_;
  std::string problem_;
};

/// The row, or what is wrong with it.
std::string read_row(const std::vector<std::string_view>& cells, Row& row) {
  if (cells.size() < fewest_columns || cells.size() > most_columns)
    return "it has " + std::to_string(cells.size()) +
           " columns, not 8 to 10: "
           "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff";
  Reader reader(cells);
  row.collective = reader.named(0, collective_names);
  row.min_bytes = static_cast<std::uint64_t>(reader.number(1, 0, INT64_MAX, "allowed is a number of bytes"));
  const std::int64_t last =
      reader.number(2, any, INT64_MAX, "allowed is a number of bytes, or -1 for no limit");
  row.max_bytes =
      last == any || last == std::int64_t{four_gigabytes} ? UINT64_MAX : static_cast<std::uint64_t>(last);
  row.algorithm = reader.named(3, algorithm_names);
  row.protocol = reader.named(4, protocol_names);
  row.channels = static_cast<int>(
      reader.number(5, any, most_channels, "allowed is 1 to 64, or -1 for NCCL's own number"));
  if (row.channels == 0) row.channels = any;  // to NCCL they are the same
  row.nodes = reader.count(6);
  row.ranks = reader.count(7);
  row.pipe_ops = reader.count(8);
  if (cells.size() > 9)
    row.registered = static_cast<int>(reader.number(9, any, 1, "allowed are 0, 1, or -1 for any"));
  if (reader.problem().empty() && row.min_bytes > row.max_bytes)
    return "min_bytes " + std::to_string(row.min_bytes) + " is above max_bytes " +
           std::to_string(row.max_bytes);
  return reader.problem();
}

bool is_heading(std::string_view first) {
  return first == "collective_type" || first == "collective" || first == "colltype";
}

}  // namespace

bool Row::fits(std::uint64_t communicator_ranks, std::uint64_t communicator_nodes) const {
  return (ranks == any || static_cast<std::uint64_t>(ranks) == communicator_ranks) &&
         (nodes == any || static_cast<std::uint64_t>(nodes) == communicator_nodes);
}

bool Row::matches(int of_collective, std::uint64_t bytes, int of_pipe_ops, int of_registered) const {
  return collective == of_collective && bytes >= min_bytes && bytes <= max_bytes &&
         (pipe_ops == any || pipe_ops == of_pipe_ops) && (registered == any || registered == of_registered);
}

std::string Row::choice() const {
  std::string words(algorithm_names[static_cast<std::size_t>(algorithm)]);
  words += '/';
  words += protocol_names[static_cast<std::size_t>(protocol)];
  if (channels != any) words += ", " + std::to_string(channels) + (channels == 1 ? " channel" : " channels");
  return words;
}

Table Table::parse(std::string_view content) {
  Table table;
  if (content.starts_with("\xef\xbb\xbf")) content.remove_prefix(3);  // spreadsheets write it
  int number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view line = trimmed(content.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const auto cells = cells_of(line);
    if (cells.empty() || is_heading(cells.front())) continue;
    Row row{.line = number};
    std::string problem = read_row(cells, row);
    if (problem.empty())
      table.rows.push_back(row);
    else
      table.bad.push_back({number, std::move(problem)});
  }
  return table;
}

}  // namespace weft::tuner
