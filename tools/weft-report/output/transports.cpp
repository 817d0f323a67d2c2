// What carries data between hosts or ranks: a table by carrier, and a drawing.

#include <algorithm>
#include <array>

#include "common/page/markup.hpp"
#include "weft-report/output/run_sections.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

struct CarrierLook {
  const char* name;
  int nccl::Channels::*count;
  const char* look;  ///< classes of the style: hue and dashes of a line
  const char* meaning;
};

/// The slowest first: these are what a reader looks for.
constexpr std::array<CarrierLook, 5> carriers{{
    {"TCP", &nccl::Channels::socket, "curve hue-1 dash-2", "TCP, through host memory"},
    {"RDMA", &nccl::Channels::rdma, "curve hue-3 dash-1", "RDMA, through host memory"},
    {"GPUDirect", &nccl::Channels::rdma_direct, "curve hue-2", "GPUDirect RDMA, from GPU memory"},
    {"SHM", &nccl::Channels::shm, "curve hue-4 dash-3", "SHM, memory that processes of a host share"},
    {"P2P", &nccl::Channels::p2p, "curve hue-0", "P2P, from GPU to GPU"},
}};

constexpr std::size_t most_drawn = 16;    // ends of lines, one below the other
constexpr std::size_t most_on_map = 512;  // hosts
constexpr std::size_t most_marks = 1200;
constexpr std::size_t most_pairs_named = 3;

/// The ends of links with their names: hosts, or ranks where there is one host.
struct Graph {
  std::vector<std::string> names{};
  std::vector<Link> links{};
  bool of_hosts = true;
};

Graph graph_of(const RunFacts& run) {
  Graph graph;
  const bool across =
      std::ranges::any_of(run.host_links, [](const Link& link) { return link.from != link.to; });
  if (across) {
    for (const HostFacts& host : run.hosts)
      graph.names.push_back(host.host.empty() ? "(not named)" : clean(host.host));
    const auto outside = [&](const Link& link) { return std::max(link.from, link.to) == run.hosts.size(); };
    if (std::ranges::any_of(run.host_links, outside)) graph.names.emplace_back("not in the logs");
    graph.links = run.host_links;
    return graph;
  }
  graph.of_hosts = false;
  std::map<std::size_t, std::size_t> index;
  for (const Link& link : run.rank_links) {
    index.try_emplace(link.from);
    index.try_emplace(link.to);
  }
  for (auto& [rank, at] : index) {
    at = graph.names.size();
    graph.names.push_back(text("rank ", rank));
  }
  for (const Link& link : run.rank_links)
    graph.links.push_back({index[link.from], index[link.to], link.channels});
  return graph;
}

std::string pair_of(const Graph& graph, const Link& link) {
  return link.from == link.to ? graph.names[link.from]
                              : text(graph.names[link.from], " → ", graph.names[link.to]);
}

void add_carrier(const Graph& graph, const CarrierLook& carrier, bool within,
                 std::vector<std::vector<std::string>>& rows) {
  std::size_t pairs = 0;
  double channels = 0;
  std::string names;
  for (const Link& link : graph.links) {
    const int count = link.channels.*carrier.count;
    if (count == 0 || (link.from == link.to) != within) continue;
    if (pairs++ < most_pairs_named) names += text(names.empty() ? "" : ", ", pair_of(graph, link));
    channels += count;
  }
  if (pairs == 0) return;
  if (pairs > most_pairs_named)
    names += text(" and ", grouped(static_cast<double>(pairs - most_pairs_named)), " more");
  const char* place = !graph.of_hosts ? "between ranks" : within ? "within a host" : "between hosts";
  rows.push_back({carrier.name, place, names, grouped(static_cast<double>(pairs)), grouped(channels)});
}

std::string carriers_table(const Graph& graph) {
  std::vector<std::vector<std::string>> rows;
  for (const CarrierLook& carrier : carriers) {
    add_carrier(graph, carrier, false, rows);
    add_carrier(graph, carrier, true, rows);
  }
  return table("What carries data",
               {"carried by", "where", graph.of_hosts ? "hosts" : "ranks", "pairs", "channels"}, rows, 2);
}

std::string lines_legend(const Graph& graph) {
  std::string keys = "<ul class=\"keys\">";
  for (const CarrierLook& carrier : carriers) {
    if (std::ranges::none_of(graph.links, [&](const Link& link) { return link.channels.*carrier.count > 0; }))
      continue;
    keys += text(
        "<li><svg class=\"sample\" width=\"30\" height=\"10\" aria-hidden=\"true\"><line x1=\"0\" y1=\"5\" "
        "x2=\"30\" y2=\"5\" class=\"",
        carrier.look, "\"/></svg>", escaped(carrier.meaning), "</li>");
  }
  return keys + "</ul>\n";
}

/// Names beside a drawing, one below the other.
std::string names_beside(const Graph& graph, const char* heading, const char* side) {
  std::string names = text("<div class=\"ends-", side, "\"><div class=\"soft\">", heading, "</div>");
  for (const std::string& name : graph.names)
    names += text("<div title=\"", escaped(name), "\">", escaped(name), "</div>");
  return names + "</div>";
}

/// Senders on the left, receivers on the right, a line for each pair and carrier.
std::string lines_of(const Graph& graph) {
  constexpr double row = 26;
  Svg svg("What carries data from one to another",
          "Senders on the left, receivers on the right; the table below has the same in words.",
          static_cast<double>(graph.names.size() + 1) * row);
  const auto y = [](std::size_t i) { return (static_cast<double>(i) + 1.5) * row; };
  for (const CarrierLook& carrier : carriers) {
    for (const Link& link : graph.links) {
      if (link.channels.*carrier.count == 0) continue;
      // Carriers of one pair lie beside each other.
      const bool alone = link.channels.*carrier.count == link.channels.all();
      const double beside = alone ? 0 : static_cast<double>(&carrier - carriers.data() - 2) * 2.5;
      svg.line(0, y(link.from) + beside, 1, y(link.to) + beside, carrier.look);
    }
  }
  return text("<div class=\"graph\">", names_beside(graph, "from", "left"), svg.str(),
              names_beside(graph, "to", "right"), "</div>\n");
}

const CarrierLook& slowest(const Link& link) {
  return *std::ranges::find_if(carriers, [&](const CarrierLook& one) {
    return link.channels.*one.count > 0 || &one == &carriers.back();
  });
}

/// A square for each pair of hosts: senders from top to bottom, receivers from left to right. Slow carriers are drawn first, and the rest as far
/// as marks go.
std::string map_of(const Graph& graph) {
  const auto count = static_cast<double>(graph.names.size());
  const double row = std::clamp(360 / count, 1.5, 8.0);
  Svg svg("Which hosts send to which",
          "A row for each sender and a column for each receiver; the table below has the same in words.",
          row * count);
  svg.rect({0, 1}, {0, row * count}, "rail");
  std::size_t marks = 0;
  for (const CarrierLook& carrier : carriers) {
    for (const Link& link : graph.links) {
      if (&slowest(link) != &carrier || ++marks > most_marks) continue;
      const auto x = static_cast<double>(link.to);
      const auto y = static_cast<double>(link.from);
      svg.rect({x / count, (x + 1) / count}, {y * row, (y + 1) * row}, text("on-", carrier.name));
    }
  }
  std::string keys = "<ul class=\"keys\">";
  for (const CarrierLook& carrier : carriers) {
    if (std::ranges::any_of(graph.links, [&](const Link& link) { return &slowest(link) == &carrier; }))
      keys += key(text("on-", carrier.name), carrier.meaning);
  }
  keys +=
      "</ul>\n<p class=\"note\">A row for each host that sends, a column for each that receives, in the "
      "order of their names.</p>\n";
  return text(keys, svg.str(),
              marks > most_marks
                  ? text("<p class=\"note\">", marks - most_marks, " more pairs are not drawn.</p>\n")
                  : std::string());
}

}  // namespace

PageSection transports(const RunFacts& run) {
  PageSection section{.heading = "What carries data"};
  const Graph graph = graph_of(run);
  if (graph.links.empty()) {
    section.html =
        "<p class=\"note\">The logs name no channel. Run the job with NCCL_DEBUG=INFO and "
        "NCCL_DEBUG_SUBSYS=INIT,NET to see what carries "
        "data between its ranks.</p>\n";
    return section;
  }
  section.note = text("Channels of the widest communicator ",
                      graph.of_hosts ? "between hosts" : "between ranks", ", as both ends name them.");
  if (graph.names.size() <= most_drawn) {
    section.html = lines_legend(graph) + lines_of(graph);
  } else if (graph.names.size() <= most_on_map) {
    section.html = map_of(graph);
  }
  section.html += carriers_table(graph);
  return section;
}

}  // namespace weft::report
