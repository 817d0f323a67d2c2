#include "weft-plan/scale/collectives.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/round_up.hpp"

namespace weft::scale {

Group group_of(const Hardware& hardware, const Placement& placement) {
  const std::int64_t per_node =
      std::clamp<std::int64_t>(hardware.gpus_per_node / placement.stride, 1, placement.ranks);
  Group group{.ranks = placement.ranks, .nodes = detail::ceil_div(placement.ranks, per_node)};
  const double within = hardware.node.rate * hardware.node.share;
  // A ring for each GPU of the node enters and leaves by that GPU's own port.
  const double between = hardware.network.rate * hardware.network.share * static_cast<double>(per_node);
  group.rate = group.nodes == 1 ? within : std::min(within, between);
  const auto hops_within = static_cast<double>(placement.ranks - group.nodes);
  const auto hops_between = static_cast<double>(group.nodes == 1 ? 0 : group.nodes);
  group.ring_latency = hops_within * hardware.node.latency + hops_between * hardware.network.latency;
  group.tree_latency =
      2 * (static_cast<double>(per_node - 1) * hardware.node.latency +
           std::ceil(std::log2(static_cast<double>(group.nodes))) * hardware.network.latency);
  return group;
}

double all_reduce(const Hardware& hardware, const Group& group, double bytes) {
  if (group.ranks == 1) return 0;
  const auto ranks = static_cast<double>(group.ranks);
  const double ring = 2 * group.ring_latency + 2 * (ranks - 1) / ranks * bytes / group.rate;
  const double tree = group.tree_latency + 2 * bytes / group.rate;
  return hardware.collective_latency + std::min(ring, tree);
}

double all_gather(const Hardware& hardware, const Group& group, double bytes) {
  if (group.ranks == 1) return 0;
  const auto ranks = static_cast<double>(group.ranks);
  return hardware.collective_latency + group.ring_latency + (ranks - 1) / ranks * bytes / group.rate;
}

double message(const Hardware& hardware, std::int64_t stride, double bytes) {
  if (stride >= hardware.gpus_per_node)
    return hardware.collective_latency + hardware.network.latency +
           bytes / (hardware.network.rate * hardware.send);
  return hardware.collective_latency + hardware.node.latency +
         bytes / (hardware.node.rate * hardware.node.share);
}

}  // namespace weft::scale
