#include "weft-report/bandwidth/tuning_table.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "weft-report/bandwidth/words.hpp"

namespace weft::report::bandwidth {
namespace {

constexpr std::size_t most_chosen = 4096;
constexpr double highest_cost = 1e7;

/// What stands before each bar. The last bar ends the line, or the line was cut.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (auto bar = line.find('|'); bar != std::string_view::npos; bar = line.find('|')) {
    cells.push_back(trimmed(line.substr(0, bar)));
    line.remove_prefix(bar + 1);
  }
  if (!trimmed(line).empty()) cells.clear();
  return cells;
}

/// Lines of operations write "NVLS_TREE", tables "NVLSTree".
bool same_name(std::string_view a, std::string_view b) {
  const auto next = [](std::string_view& words) {
    while (!words.empty() && words.front() == '_') words.remove_prefix(1);
    if (words.empty()) return -1;
    const int c = std::tolower(static_cast<unsigned char>(words.front()));
    words.remove_prefix(1);
    return c;
  };
  for (;;) {
    const int x = next(a);
    if (x != next(b)) return false;
    if (x < 0) return true;
  }
}

/// The enumerator of this name, or, where lines of 2.20 to 2.23 say so, of this number.
template <class T>
std::optional<T> enumerator(std::string_view word, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (same_name(word, name(static_cast<T>(i)))) return static_cast<T>(i);
  }
  const auto number = number_of<std::size_t>(word);
  return number && *number < count ? std::optional(static_cast<T>(*number)) : std::nullopt;
}
std::optional<Algorithm> algorithm_named(std::string_view word) {
  if (word == "CollNet") return Algorithm::collnet_direct;  // before 2.14 there was one kind
  return enumerator<Algorithm>(word, algorithms);
}

std::optional<double> cost_in(std::string_view words) {
  const auto value = number_of<double>(trimmed(words));
  return value && *value >= 0 && *value < highest_cost ? value : std::nullopt;
}

/// Columns of a heading; another communicator's table begins with columns whose costs are known.
void set_columns(const std::vector<std::string_view>& cells, bool pairs, TuningTable& table) {
  table.columns.clear();
  for (std::size_t i = 1; i < cells.size(); ++i) {
    const auto slash = std::min(cells[i].find('/'), cells[i].size());
    const auto algorithm = algorithm_named(trimmed(cells[i].substr(0, slash)));
    if (!algorithm) return table.columns.clear();
    if (!pairs) {
      for (std::size_t p = 0; p < protocols; ++p)
        table.columns.emplace_back(*algorithm, static_cast<Protocol>(p));
      continue;
    }
    const auto protocol =
        enumerator<Protocol>(trimmed(cells[i].substr(std::min(slash + 1, cells[i].size()))), protocols);
    if (!protocol) return table.columns.clear();
    table.columns.emplace_back(*algorithm, *protocol);
  }
  if (!table.columns.empty() && table.known.contains(CostTable::index(
                                    Collective::all_reduce, table.columns[0].first, table.columns[0].second)))
    table.columns.clear();
}

bool take_costs(const std::vector<std::string_view>& cells, Collective collective, TuningTable& table) {
  if (table.columns.empty() || cells.size() != table.columns.size() + 1) return false;
  std::vector<Cost> row;
  for (std::size_t i = 1; i < cells.size(); ++i) {
    const auto slash = std::min(cells[i].find('/'), cells[i].size());
    const auto latency = cost_in(cells[i].substr(0, slash));
    const auto bandwidth = cost_in(cells[i].substr(std::min(slash + 1, cells[i].size())));
    if (!latency || !bandwidth) return false;
    row.push_back({*latency, *bandwidth});
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto [algorithm, protocol] = table.columns[i];
    const std::size_t at = CostTable::index(collective, algorithm, protocol);
    if (table.known.insert(at).second) table.costs.costs[at] = row[i];
  }
  return true;
}

/// "AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}"
bool take_choice(std::string_view message, const Evidence& evidence, TuningTable& table) {
  const auto colon = message.find(": ");
  const auto arrow = message.find(" Bytes -> Algo ");
  if (arrow == std::string_view::npos || colon == std::string_view::npos || colon > arrow) return false;
  const auto collective = enumerator<Collective>(message.substr(0, colon), collectives);
  const auto bytes = number_of<std::int64_t>(message.substr(colon + 2, arrow - colon - 2));
  std::string_view rest = message.substr(arrow + 15);
  const auto algorithm = algorithm_named(rest.substr(0, rest.find(' ')));
  const auto mark = rest.find(" proto ");
  if (mark == std::string_view::npos) return false;
  rest.remove_prefix(mark + 7);
  const auto space = rest.find(' ');
  if (space == std::string_view::npos) return false;  // the name may have been cut
  const auto protocol = enumerator<Protocol>(rest.substr(0, space), protocols);
  if (!collective || !bytes || *bytes < 0 || !algorithm || !protocol) return false;
  if (table.chosen.size() < most_chosen)
    table.chosen.try_emplace({*collective, *bytes}, Chosen{*algorithm, *protocol, evidence});
  return true;
}

}  // namespace

bool take_tuning(std::string_view message, std::int64_t printer, const Evidence& evidence,
                 TuningTable& table) {
  message = trimmed(message);
  if (message.find(" Bytes -> Algo ") != std::string_view::npos) return take_choice(message, evidence, table);
  const std::vector<std::string_view> cells = cells_of(message);
  if (cells.size() < 2) return false;
  const bool blocks = cells[0] == "Algorithm";
  const bool pairs = cells[0] == "Latency/AlgBw";
  const auto collective = enumerator<Collective>(cells[0], collectives);
  if (!blocks && !pairs && !collective) return cells[0] == "Protocol" || cells[0] == "Max NThreads";
  if (table.printer < 0 && (blocks || pairs)) {
    table.printer = printer;
    table.evidence = evidence;
  }
  if (printer != table.printer) return true;
  if (!collective) {
    set_columns(cells, pairs, table);
    return true;
  }
  return take_costs(cells, *collective, table);
}

}  // namespace weft::report::bandwidth
