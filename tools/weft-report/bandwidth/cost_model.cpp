#include "weft-report/bandwidth/cost_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "weft-report/bandwidth/cost_constants.hpp"
#include "weft/core/error.hpp"

namespace weft::report::bandwidth {
namespace {

constexpr std::array<std::string_view, collectives> collective_names{"Broadcast", "Reduce", "AllGather",
                                                                     "ReduceScatter", "AllReduce"};
constexpr std::array<std::string_view, algorithms> algorithm_names{
    "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
constexpr std::array<std::string_view, protocols> protocol_names{"LL", "LL128", "Simple"};

/// Types of paths, the nearest first: NCCL, src/graph/topo.h.
constexpr std::array<std::string_view, 11> path_types{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                                      "P2C", "PXN", "PHB", "SYS", "NET"};
bool is_within(const std::string& type, std::string_view farthest) {
  return std::ranges::find(path_types, type) <= std::ranges::find(path_types, farthest);
}

std::size_t index(auto of) {
  return static_cast<std::size_t>(of);
}
bool is_shared(Collective c) {
  return c == Collective::all_gather || c == Collective::reduce_scatter;
}
bool is_nvls(Algorithm a) {
  return a == Algorithm::nvls || a == Algorithm::nvls_tree;
}

/// The numbers of one machine, and what the formulas share.
class CostFormulas {
  using enum Collective;
  using enum Algorithm;
  using enum Protocol;

 public:
  explicit CostFormulas(const Machine& machine)
      : m_(machine),
        k_(cost_constants(machine.version)),
        gpu_(m_.capability >= 100  ? 3U
             : m_.capability >= 90 ? 2U
             : m_.capability >= 80 ? 1U
                                   : 0U),
        nodes_(static_cast<std::size_t>(std::min(m_.nodes, 3) - 1)),
        per_node_(static_cast<double>(m_.ranks) / m_.nodes) {}

  Cost cost(Collective c, Algorithm a, Protocol p) const {
    if (!exists(c, a, p)) return {};
    return {.latency = latency(c, a, p), .bandwidth = is_enabled(a, p) ? bandwidth(c, a, p) : 0};
  }

 private:
  bool since(int minor, int patch = 0) const { return m_.version >= NcclVersion{{2, minor, patch}}; }
  const Graph& graph(Algorithm a) const { return m_.graphs[index(a)]; }
  double rings_steps(Collective c) const {
    if (c == all_reduce) return 2.0 * (m_.ranks - 1);
    return is_shared(c) ? m_.ranks - 1 : m_.ranks;
  }

  /// Whether NCCL has code for it; the others keep a latency of 0.
  bool exists(Collective c, Algorithm a, Protocol p) const {
    if (a == collnet_direct || a == collnet_chain) return false;
    if (is_nvls(a) && (p != simple || (since(28) && graph(a).channels < 2))) return false;
    if (c == broadcast || c == reduce) return a == ring;
    if (c == all_reduce) return a != pat;
    if (a == pat) return since(23) && p == simple && m_.nodes == m_.ranks && m_.capability >= 60;
    return a == ring || (a == nvls && since(19));
  }
  /// Without CollNet NVLS stays within a node, and NVLSTree joins several.
  bool is_enabled(Algorithm a, Protocol p) const {
    if (graph(a).channels == 0 || (a == nvls && m_.nodes > 1) || (a == nvls_tree && m_.nodes == 1))
      return false;
    if (p != ll128) return true;
    const bool hopper = m_.capability >= 90;
    std::string_view farthest = hopper ? "PXN" : "PXB";
    if (since(27) && !since(27, 7) && hopper) farthest = "P2C";
    if (!is_within(graph(a).type_inter, farthest) ||
        !is_within(graph(a).type_intra, since(18, 3) ? "NVB" : "NVL"))
      return false;
    if (since(27)) return m_.capability >= 70;
    const bool known = m_.capability == 70 || m_.capability == 80 || m_.capability == 90;
    return known || (since(25) && (m_.capability == 100 || m_.capability == 120));
  }

  double of_channel(Collective c, Algorithm a) const {
    const Graph& g = graph(a);
    const double plain = m_.nodes <= 2 ? g.intra : g.inter;
    if (!is_nvls(a) || !since(19)) return plain;
    if (since(28)) {
      const double pipelined = c == all_reduce ? 2 : (per_node_ - 1) / per_node_;
      const double intra = g.intra * k_.nvls_efficiency[gpu_] * (g.channels - 1) / g.channels * pipelined;
      const double inter = g.inter * (m_.nodes <= 2 && a == nvls_tree ? 2 : 1);
      const double both = std::min(intra, inter);
      return a == nvls_tree ? std::min(both, k_.nvls_tree_of_channel[gpu_][nodes_]) : both;
    }
    if (a == nvls_tree) return std::min(g.intra, m_.nodes <= 2 ? g.inter : g.inter / 2);
    if (since(27) && c != all_reduce) return std::min(g.intra * (per_node_ - 1) / per_node_, g.inter * 0.9);
    return std::min(g.intra, g.inter);
  }

  double ll_most() const {
    const bool amd = m_.processor == Processor::amd || (m_.processor == Processor::mixed && since(24));
    return k_.ll_most[m_.nodes == 1 ? gpu_ : amd ? 1U : 0U][nodes_];
  }
  double ring_bandwidth(Collective c, Protocol p, double bus) const {
    const int channels = graph(ring).channels;
    if (p == ll) {
      const bool fourth = m_.nodes > 1 || c == all_reduce || c == reduce;
      return std::min(ll_most(), bus * (since(21) ? 0.5 : fourth ? 0.25 : 1.0 / 3));
    }
    if (p != ll128) return bus;
    const double part = per_node_ < 2 && !since(23) ? 0.7 : 0.92;
    return std::min(bus * part, channels * k_.ring_ll128_of_channel[gpu_][nodes_]);
  }
  double tree_bandwidth(Protocol p, double bus) const {
    const int channels = graph(tree).channels;
    bus = std::min(bus * 0.92, channels * k_.tree_of_channel[gpu_][nodes_]);
    if (p == ll) bus = std::min(bus / 3.8, ll_most());
    if (p == ll128)
      bus = std::min(bus * (m_.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                     channels * k_.tree_ll128_of_channel[gpu_][nodes_]);
    return graph(tree).pattern == 3 && since(18, 3) ? bus * 0.85 : bus;
  }

  /// What a bus bandwidth is worth as bytes of the operation.
  double algorithm_bandwidth(Collective c, Algorithm a, double bus) const {
    const double around = m_.ranks / rings_steps(c);
    if (a == ring) return bus * around;
    if (is_shared(c) && since(23)) return bus;
    if (!is_nvls(a)) return bus * 0.5;
    if (since(28)) return bus * around;
    if (since(19)) return bus * 5 / 6;
    if (a == nvls) return bus * (since(18, 3) ? 5.0 / 6 : 0.75);
    return m_.nodes > 1 ? bus * 0.7 * m_.nodes / (2.0 * (m_.nodes - 1)) : 0;
  }
  double bandwidth(Collective c, Algorithm a, Protocol p) const {
    double bus = graph(a).channels * of_channel(c, a);
    if (a == ring) bus = ring_bandwidth(c, p, bus);
    if (a == tree) bus = tree_bandwidth(p, bus);
    if (a == pat) bus *= since(24) ? 0.75 : 0.85;
    return algorithm_bandwidth(c, a, bus);
  }

  double ring_latency(Collective c, Protocol p, double intra, double inter) const {
    const ByAlgorithm& all = m_.nodes > 1 ? k_.net : near(ring);
    const double steps = rings_steps(c);
    if (c == broadcast || c == reduce) {
      if (graph(ring).same_channels) return all[index(ring)][index(p)];
      return steps * all[p == simple ? index(tree) : index(ring)][index(p)];
    }
    double between = m_.nodes == 1 ? 0 : c == all_reduce ? 2.0 * (m_.nodes - 1) : m_.nodes - 1;
    if (!since(23) && m_.nodes > 1 && c == all_reduce) between = 2.0 * m_.nodes;
    const double post = m_.nodes == 1 ? 0 : m_.processor == Processor::amd ? 2 : 1;
    return (steps - between) * std::max(intra, p == simple ? 3 * post : post) + between * inter;
  }
  double latency(Collective c, Algorithm a, Protocol p) const {
    const double base = k_.base[index(a)][index(p)];
    const double intra = near(a)[index(a)][index(p)];
    const bool exposed = per_node_ == 1 && since(23);
    const double inter = k_.net[index(exposed ? tree : a)][index(p)];
    const double levels = std::bit_width(static_cast<unsigned>(m_.nodes)) - 1;
    switch (a) {
      case ring:
        return base + ring_latency(c, p, intra, inter);
      case tree:
        return base + 2 * ((m_.ranks / m_.nodes - 1) * intra + levels * inter);
      case nvls:
        if (!since(19)) return m_.nodes > 1 ? base + inter : base;
        return m_.nodes > 1 ? intra + inter : intra;
      case nvls_tree:
        if (!since(19)) return base + 2 * (m_.nodes - 1) * inter;
        return base + intra + 2 * levels * inter;
      case pat:
        return base + levels * inter / 3.5 + m_.ranks * 2.8;
      default:
        return 0;
    }
  }
  const ByAlgorithm& near(Algorithm a) const { return graph(a).type_intra == "NVL" ? k_.nvlink : k_.pci; }

  const Machine& m_;
  CostConstants k_;
  std::size_t gpu_;
  std::size_t nodes_;
  double per_node_;
};

}  // namespace

std::string_view name(Collective collective) {
  return collective_names[index(collective)];
}
std::string_view name(Algorithm algorithm) {
  return algorithm_names[index(algorithm)];
}
std::string_view name(Protocol protocol) {
  return protocol_names[index(protocol)];
}

CostTable model(const Machine& machine) {
  if (machine.version < NcclVersion{{2, 18, 0}} || machine.version >= NcclVersion{{2, 31, 0}})
    throw Error(ErrorKind::usage, text("NCCL ", name(machine.version), " has no known cost model"),
                "2.18 to 2.30 are known");
  CostTable table;
  if (machine.ranks < 2 || machine.nodes < 1 || machine.ranks % machine.nodes != 0) return table;
  const CostFormulas formulas(machine);
  for (std::size_t i = 0; i < table.costs.size(); ++i) {
    const auto c = static_cast<Collective>(i / (algorithms * protocols));
    const auto a = static_cast<Algorithm>(i / protocols % algorithms);
    table.costs[i] = formulas.cost(c, a, static_cast<Protocol>(i % protocols));
  }
  return table;
}

double microseconds(const CostTable& costs, Collective c, Algorithm a, Protocol p, std::int64_t bytes,
                    const Machine& machine) {
  using enum Algorithm;
  const bool reduces_all = c == Collective::all_reduce;
  Cost cost = costs.at(c, a, p);
  if (!(cost.bandwidth > 0)) return -1;
  const bool corrected = reduces_all || machine.version < NcclVersion{{2, 23, 0}};
  if (a == tree && corrected) cost.bandwidth *= tree_correction(p, bytes);
  const bool x86 = machine.processor != Processor::other;
  if (a == nvls_tree && reduces_all && x86 && machine.capability >= 100 &&
      machine.version >= NcclVersion{{2, 29, 0}})
    cost.bandwidth *= tree_correction(p, bytes, 24);
  const std::int64_t parts = std::int64_t{std::max(machine.channels, 1)} * std::max(machine.ranks, 1);
  if (a == ring && p == Protocol::simple && reduces_all && machine.nodes > 1 && bytes / parts >= 64)
    cost.latency *= machine.capability < 80 ? 1.9 : 1.4;
  return cost.latency + static_cast<double>(bytes) / (1000 * cost.bandwidth);
}

Choice choose(const CostTable& costs, Collective c, std::int64_t bytes, const Machine& machine) {
  Choice best;
  for (std::size_t i = 0; i < algorithms * protocols; ++i) {
    const auto a = static_cast<Algorithm>(i / protocols);
    const auto p = static_cast<Protocol>(i % protocols);
    const double time = microseconds(costs, c, a, p, bytes, machine);
    if (time >= 0 && (best.microseconds < 0 || time < best.microseconds)) best = {a, p, time};
  }
  return best;
}

}  // namespace weft::report::bandwidth
