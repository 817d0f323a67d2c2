#include "weft-report/inspector/prometheus.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "weft/core/text.hpp"

namespace weft::report::inspector {
namespace {

constexpr std::size_t most_means = 65536;
constexpr std::size_t longest_label = 255;
constexpr double highest_value = 1e15;

using Labels = std::map<std::string, std::string, std::less<>>;

struct Line {
  std::string_view metric{};
  Labels labels{};
  double value = 0;
};

std::optional<double> number_of(std::string_view words) {
  double value = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
  if (error != std::errc() || end == words.data() || !std::isfinite(value) || value < 0 ||
      value > highest_value)
    return std::nullopt;
  return value;
}

/// metric{name="value",...} number
std::optional<Line> line_of(std::string_view words) {
  Line line;
  const auto open = words.find('{');
  if (open == std::string_view::npos) return std::nullopt;
  line.metric = words.substr(0, open);
  std::size_t at = open + 1;
  while (at < words.size() && words[at] != '}') {
    const auto equals = words.find("=\"", at);
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string label(words.substr(at, equals - at));
    std::string value;
    for (at = equals + 2; at < words.size() && words[at] != '"'; ++at) {
      if (words[at] == '\\') ++at;
      if (at < words.size() && value.size() < longest_label) value += words[at];
    }
    if (++at > words.size()) return std::nullopt;
    line.labels[label] = value;
    if (at < words.size() && words[at] == ',') ++at;
  }
  if (at >= words.size()) return std::nullopt;
  words.remove_prefix(at + 1);
  words.remove_prefix(std::min(words.find_first_not_of(' '), words.size()));
  const auto value = number_of(words);
  if (!value) return std::nullopt;
  line.value = *value;
  return line;
}

std::string label(const Line& line, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto found = line.labels.find(name);
    if (found != line.labels.end()) return found->second;
  }
  return {};
}
std::int64_t count_label(const Line& line, std::string_view name) {
  const auto value = number_of(label(line, {name}));
  return value && *value <= 1 << 24 ? static_cast<std::int64_t>(*value) : -1;
}

/// "4.00MB", "4-5GB", "0B": the units are powers of 1024.
std::uint64_t bytes_of(std::string_view words) {
  double value = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return 0;
  constexpr std::array<std::string_view, 5> units{"B", "KB", "MB", "GB", "TB"};
  const std::string_view unit = words.substr(std::min(words.find_first_of("BKMGT"), words.size()));
  const auto found = std::ranges::find(units, unit);
  if (found == units.end()) return 0;
  value *= std::exp2(10.0 * static_cast<double>(found - units.begin()));
  return value < 1e17 ? static_cast<std::uint64_t>(value) : 0;
}

Mean mean_of(const Line& line) {
  Mean mean{.host = label(line, {"node", "hostname"}),
            .gpu = label(line, {"gpu", "gpu_device_id"}),
            .communicator = label(line, {"comm_id", "comm_name"}),
            .rank = count_label(line, "rank"),
            .ranks = count_label(line, "nranks"),
            .nodes = count_label(line, "n_nodes"),
            .kind = kind_of(label(line, {"collective", "p2p_operation"})),
            .algorithm = label(line, {"algo_proto"})};
  const bool shares =
      mean.kind == Kind::all_gather || mean.kind == Kind::reduce_scatter || mean.kind == Kind::all_gather_v;
  mean.bytes = bytes_of(label(line, {"message_size"})) *
               (shares && mean.ranks > 0 ? static_cast<std::uint64_t>(mean.ranks) : 1);
  return mean;
}

}  // namespace

bool opens_metrics(std::string_view start) {
  const auto begin = start.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  start.remove_prefix(begin);
  return start.starts_with("nccl_") || start.starts_with("# HELP nccl_") || start.starts_with("# TYPE nccl_");
}

Metrics read_metrics(std::string_view content) {
  Metrics metrics;
  struct Sum {
    Mean mean{};
    double busbw = 0;
    double microseconds = 0;
    int busbws = 0;
    int times = 0;
  };
  using Key =
      std::tuple<std::string, std::string, std::string, std::int64_t, Kind, std::uint64_t, std::string>;
  std::map<Key, Sum> sums;
  int number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = content.find('\n', begin);
    const std::string_view words = content.substr(begin, end - begin);
    begin = end == std::string_view::npos ? content.size() : end + 1;
    ++number;
    if (words.empty() || words.front() == '#' || words.front() == '\r') continue;
    const auto line = line_of(words);
    if (!line && end == std::string_view::npos) {
      metrics.cut = true;
      break;
    }
    if (!line) {
      if (metrics.bad_lines++ == 0) {
        metrics.first_bad = number;
        metrics.problem = "is no line METRIC{LABELS} VALUE";
      }
      continue;
    }
    const bool bandwidth = line->metric.ends_with("bus_bandwidth_gbs");
    if (!bandwidth && !line->metric.ends_with("exec_time_microseconds")) continue;
    Mean mean = mean_of(*line);
    Key key{mean.host, mean.gpu, mean.communicator, mean.ranks, mean.kind, mean.bytes, mean.algorithm};
    auto at = sums.find(key);
    if (at == sums.end()) {
      if (sums.size() >= most_means) continue;
      at = sums.emplace(std::move(key), Sum{.mean = std::move(mean)}).first;
    }
    Sum& sum = at->second;
    (bandwidth ? sum.busbw : sum.microseconds) += line->value;
    ++(bandwidth ? sum.busbws : sum.times);
  }
  for (auto& [key, sum] : sums) {
    sum.mean.busbw = sum.busbws > 0 ? sum.busbw / sum.busbws : 0;
    sum.mean.microseconds = sum.times > 0 ? sum.microseconds / sum.times : 0;
    metrics.means.push_back(std::move(sum.mean));
  }
  return metrics;
}

}  // namespace weft::report::inspector
