#include "weft-report/inspector/rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "weft-report/inspector/medians.hpp"
#include "weft/core/text.hpp"

namespace weft::report::inspector {
namespace {

constexpr std::size_t most_windows = 32;
constexpr std::size_t fewest_in_window = 4;
constexpr std::size_t fewest_around = 4;  // windows on each side of a change
constexpr double least_change = 1.2;
constexpr double window_spreads = 6;
constexpr double beyond = 0.9;          // of the windows are on their side of it
constexpr double shortest_judged = 20;  // microseconds

struct Timed {
  std::uint32_t number = 0;
  std::uint32_t when = 0;
  double microseconds = 0;
};

double middle_of(std::span<const Timed> operations) {
  std::vector<double> times;
  for (const Timed& one : operations) times.push_back(one.microseconds);
  return middle(times);
}
double middle_of(std::span<const Window> windows) {
  std::vector<double> times;
  for (const Window& one : windows) times.push_back(one.microseconds);
  return middle(times);
}

/// The rank that always comes last; none: nullopt.
std::optional<std::uint32_t> last_rank(const Comparison& comparison) {
  for (const Straggler& one : comparison.stragglers) {
    if (one.last()) return one.member;
  }
  return std::nullopt;
}

double time_of(std::span<const Sample> samples, std::optional<std::uint32_t> last) {
  std::vector<double> times;
  for (const Sample& sample : samples) {
    if (last && sample.rank == *last) return sample.microseconds;
    times.push_back(sample.microseconds);
  }
  return middle(times);
}

void add_windows(const std::vector<Timed>& operations, SizeRow& row) {
  const std::size_t count = std::min(most_windows, operations.size() / fewest_in_window);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * operations.size() / count;
    const std::size_t end = (i + 1) * operations.size() / count;
    row.windows.push_back({.first = operations[begin].number,
                           .when = operations[begin].when,
                           .microseconds = middle_of(std::span(operations).subspan(begin, end - begin))});
  }
  if (row.median_us >= shortest_judged) row.change = change_of(row.windows);
}

SizeRow row_of(const std::vector<Timed>& operations, std::int64_t ranks, SizeRow row) {
  std::vector<double> times;
  for (const Timed& one : operations) times.push_back(one.microseconds);
  row.operations = operations.size();
  row.median_us = middle(times);
  row.p99_us = part(times, 0.99);
  if (operations.size() >= 4) {
    const std::span<const Timed> all(operations);
    row.first_half_us = middle_of(all.first(all.size() / 2));
    row.second_half_us = middle_of(all.subspan(all.size() / 2));
  }
  if (row.median_us > 0) row.algbw = static_cast<double>(row.bytes) / row.median_us / 1000;
  const bool one_way = row.kind == Kind::send || row.kind == Kind::receive;
  row.busbw = row.algbw * (one_way ? 1 : bandwidth::bus_factor(std::string(name(row.kind)), ranks));
  add_windows(operations, row);
  return row;
}

/// What is not matched between ranks: each record is an operation of its own.
bool is_matched(Kind kind) {
  return is_collective(kind) && kind != Kind::other;
}

void add_rows(const Communicator& one, const Comparison& comparison, std::size_t at,
              std::vector<SizeRow>& rows) {
  const auto last = last_rank(comparison);
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    std::map<std::uint64_t, std::vector<Timed>> by_size;
    std::map<std::uint64_t, std::uint64_t> records;
    const auto add = [&](std::span<const Sample> samples, double microseconds) {
      const std::uint64_t bytes = one.sizes[samples.front().size];
      by_size[bytes].push_back({samples.front().number, samples.front().when, microseconds});
      records[bytes] += samples.size();
    };
    each_operation(one.operations[kind], [&](std::span<const Sample> samples) {
      if (is_matched(static_cast<Kind>(kind))) return add(samples, time_of(samples, last));
      for (std::size_t i = 0; i < samples.size(); ++i) add(samples.subspan(i, 1), samples[i].microseconds);
    });
    for (const auto& [bytes, operations] : by_size)
      rows.push_back(row_of(
          operations, one.ranks,
          {.communicator = at, .kind = static_cast<Kind>(kind), .bytes = bytes, .records = records[bytes]}));
  }
}

bandwidth::Row judged_row(std::uint64_t bytes, std::initializer_list<double> times, double factor) {
  bandwidth::Row row{.bytes = static_cast<std::int64_t>(bytes)};
  for (const double microseconds : times) {
    if (microseconds <= 0) continue;
    const double algbw = static_cast<double>(bytes) / microseconds / 1000;
    (row.out_of_place ? row.in_place : row.out_of_place) =
        bandwidth::Measured{.microseconds = microseconds, .algbw = algbw, .busbw = algbw * factor};
  }
  return row;
}

/// A mean of Inspector's metrics states both, and nothing else.
void add_means(const Job& job, const std::string& gpu, std::vector<bandwidth::Table>& tables) {
  struct Group {
    std::vector<double> times{};
    std::int64_t nodes = -1;
    std::set<std::string> hosts{};
  };
  std::map<std::tuple<std::string, Kind, std::int64_t>, std::map<std::uint64_t, Group>> groups;
  for (const Mean& mean : job.means) {
    if (!is_collective(mean.kind) || mean.microseconds <= 0 || mean.ranks < 2) continue;
    Group& group = groups[{mean.communicator, mean.kind, mean.ranks}][mean.bytes];
    group.times.push_back(mean.microseconds);
    group.nodes = std::max(group.nodes, mean.nodes);
    group.hosts.insert(mean.host);
  }
  for (const auto& [key, sizes] : groups) {
    const auto& [communicator, kind, ranks] = key;
    bandwidth::Table table{
        .op = std::string(name(kind)), .version = "NCCL Inspector", .ranks = ranks, .device = gpu};
    table.heading = {communicator, 0, text(table.op, " of ", ranks, " ranks, by Inspector's metrics")};
    const double factor = bandwidth::bus_factor(table.op, ranks);
    for (const auto& [bytes, group] : sizes) {
      table.nodes = std::max(table.nodes, group.nodes);
      table.hosts.insert(group.hosts.begin(), group.hosts.end());
      bandwidth::Row row = judged_row(bytes, {middle(group.times)}, factor);
      row.text = text(table.op, ' ', bytes, " bytes: ", middle(group.times),
                      " us (mean of a dump; the median of ", group.times.size(), " GPUs)");
      if (row.out_of_place) table.add(std::move(row));
    }
    table.links_alone = table.nodes < 2;
    if (factor > 0 && !table.rows.empty()) tables.push_back(std::move(table));
  }
}

}  // namespace

std::optional<Change> change_of(const std::vector<Window>& windows) {
  std::optional<Change> best;
  double least = 0;  // sum of what the windows are apart from the median of their side
  const std::span<const Window> all(windows);
  for (std::size_t at = fewest_around; at + fewest_around <= windows.size(); ++at) {
    const double before = middle_of(all.first(at));
    const double after = middle_of(all.subspan(at));
    if (before <= 0 || after <= 0) continue;
    const double step = std::abs(std::log(after / before));
    const double between = std::sqrt(before * after);
    std::vector<double> within;
    std::size_t on_side = 0;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const double own = i < at ? before : after;
      within.push_back(std::abs(std::log(std::max(windows[i].microseconds, 1e-3) / own)));
      if ((windows[i].microseconds > between) == (own > between)) ++on_side;
    }
    if (step < std::log(least_change) || step < window_spreads * 1.4826 * middle(within)) continue;
    if (static_cast<double>(on_side) < beyond * static_cast<double>(windows.size())) continue;
    const double apart = std::accumulate(within.begin(), within.end(), 0.0);
    if (best && apart >= least) continue;
    least = apart;
    best = Change{.number = windows[at].first, .when = windows[at].when, .before = before, .after = after};
  }
  return best;
}

std::vector<SizeRow> rows_of(const Job& job, const std::vector<Comparison>& comparisons) {
  std::vector<SizeRow> rows;
  for (std::size_t at = 0; at < job.communicators.size(); ++at)
    add_rows(job.communicators[at], comparisons[at], at, rows);
  return rows;
}

std::vector<bandwidth::Table> tables_of(const Job& job, const std::vector<SizeRow>& rows,
                                        const std::string& gpu) {
  std::vector<bandwidth::Table> tables;
  const SizeRow* before = nullptr;
  for (const SizeRow& row : rows) {
    if (!is_collective(row.kind) || row.busbw <= 0) continue;
    const Communicator& one = job.communicators[row.communicator];
    if (before == nullptr || before->communicator != row.communicator || before->kind != row.kind) {
      bandwidth::Table table{
          .op = std::string(name(row.kind)), .version = "NCCL Inspector", .ranks = one.ranks, .device = gpu};
      table.nodes = one.nodes;
      for (const Member& member : one.members) table.hosts.insert(member.host);
      table.links_alone = one.whole_nodes || one.nodes < 2;
      table.heading = {one.called(), 0, text(table.op, " of ", one.ranks, " ranks, by NCCL's Inspector")};
      tables.push_back(std::move(table));
    }
    before = &row;
    const bool halves = row.first_half_us > 0;
    bandwidth::Row judged = judged_row(
        row.bytes, {halves ? row.first_half_us : row.median_us, row.second_half_us}, row.busbw / row.algbw);
    judged.text = text(name(row.kind), ' ', row.bytes, " bytes: ", row.median_us, " us, busbw ", row.busbw,
                       " GB/s (median of ", row.operations, " operations)");
    if (judged.out_of_place) tables.back().add(std::move(judged));
  }
  std::erase_if(tables, [](const bandwidth::Table& table) { return table.rows.empty(); });
  add_means(job, gpu, tables);
  return tables;
}

}  // namespace weft::report::inspector
