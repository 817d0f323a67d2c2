// NCCL_GRAPH_DUMP_FILE and NCCL_GRAPH_FILE (NCCL 2.5 to 2.30, src/graph/search.cc): <graphs> of <graph>, <channel>, <net> and <gpu>. Since 2.21
// the numbers of devices are hexadecimal with 0x; before they were decimal.

#include "weft-report/topology/graph.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "weft-report/topology/xml.hpp"

namespace weft::report::topology {
namespace {

Channel channel_of(const pugi::xml_node& node) {
  Channel channel;
  for (const pugi::xml_node one : node.children()) {
    const std::string_view name = one.name();
    if (name == "net") channel.nets.push_back(integer(one, "dev", -1));
    if (name == "gpu") channel.gpus.push_back({integer(one, "dev", -1), integer(one, "rank", -1)});
  }
  return channel;
}

Graph graph_of(const Xml& xml, const pugi::xml_node& node) {
  Graph graph{.id = small(node, "id", -1),
              .pattern = small(node, "pattern", -1),
              .cross_nic = integer(node, "crossnic", 0) != 0,
              .channels = small(node, "nchannels", 0),
              .intra_gigabytes = std::max(0.0, real(node, "speedintra")),
              .inter_gigabytes = std::max(0.0, real(node, "speedinter")),
              .intra_type = value(node, "typeintra"),
              .inter_type = value(node, "typeinter"),
              .evidence = xml.evidence(node)};
  for (const pugi::xml_node way : node.children("channel")) graph.ways.push_back(channel_of(way));
  return graph;
}

/// "20.0/12.5" behind a label; empty where a part is missing.
std::pair<std::string_view, std::string_view> pair_behind(std::string_view message, std::string_view label) {
  const auto at = message.find(label);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = message.substr(at + label.size());
  const std::string_view pair = rest.substr(0, rest.find(','));
  const auto slash = pair.find('/');
  if (pair.size() == rest.size() || slash == std::string_view::npos) return {};
  return {pair.substr(0, slash), pair.substr(slash + 1)};
}
template <class Number>
Number number_at(std::string_view digits, Number otherwise) {
  Number number{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() ? number : otherwise;
}

bool same_speed(double a, double b) {
  return std::abs(a - b) <= 0.01 * std::max(a, b);
}

}  // namespace

bool Graph::alike(const Graph& other) const {
  return pattern == other.pattern && channels == other.channels && intra_type == other.intra_type &&
         inter_type == other.inter_type && same_speed(intra_gigabytes, other.intra_gigabytes) &&
         same_speed(inter_gigabytes, other.inter_gigabytes);
}

std::optional<Graph> graph_of_line(std::string_view message) {
  constexpr std::string_view label = "nChannels ";
  const auto [intra_type, inter_type] = pair_behind(message, " type ");
  const auto channels = message.find(label);
  if (!message.starts_with("Pattern ") || inter_type.empty() || channels == std::string_view::npos)
    return std::nullopt;
  auto speeds = pair_behind(message, " bw ");
  if (speeds.first.empty()) speeds = pair_behind(message, " speed ");
  const double intra = number_at(speeds.first, -1.0);
  const double inter = number_at(speeds.second, -1.0);
  if (!std::isfinite(intra) || !std::isfinite(inter) || intra < 0 || inter < 0) return std::nullopt;
  return Graph{.pattern = number_at(message.substr(8), -1),
               .cross_nic = message.find("crossNic 0,") == std::string_view::npos,
               .channels = number_at(message.substr(channels + label.size()), 0),
               .intra_gigabytes = intra,
               .inter_gigabytes = inter,
               .intra_type = std::string(intra_type),
               .inter_type = std::string(inter_type)};
}

std::vector<Graph> read_graphs(std::string_view content, const std::string& file) {
  const Xml xml(content, file);
  const pugi::xml_node root = xml.root("graphs");
  std::vector<Graph> graphs;
  for (const pugi::xml_node node : root.children("graph")) graphs.push_back(graph_of(xml, node));
  if (graphs.empty()) xml.refuse(root, "<graphs> has no <graph>");
  return graphs;
}

}  // namespace weft::report::topology
