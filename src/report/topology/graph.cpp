// NCCL_GRAPH_DUMP_FILE and NCCL_GRAPH_FILE (NCCL 2.5 to 2.30, src/graph/search.cc): <graphs> of <graph>, <channel>, <net> and <gpu>. Since 2.21
// the numbers of devices are hexadecimal with 0x; before they were decimal.

#include "report/topology/graph.hpp"

#include "report/topology/xml.hpp"

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
              .intra_gigabytes = real(node, "speedintra"),
              .inter_gigabytes = real(node, "speedinter"),
              .intra_type = value(node, "typeintra"),
              .inter_type = value(node, "typeinter"),
              .evidence = xml.evidence(node)};
  for (const pugi::xml_node way : node.children("channel")) graph.ways.push_back(channel_of(way));
  return graph;
}

}  // namespace

std::vector<Graph> read_graphs(std::string_view content, const std::string& file) {
  const Xml xml(content, file);
  const pugi::xml_node root = xml.root("graphs");
  std::vector<Graph> graphs;
  for (const pugi::xml_node node : root.children("graph")) graphs.push_back(graph_of(xml, node));
  if (graphs.empty()) xml.refuse(root, "<graphs> has no <graph>");
  return graphs;
}

}  // namespace weft::report::topology
