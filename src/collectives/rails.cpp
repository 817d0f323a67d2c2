#include "collectives/rails.hpp"

#include <algorithm>

namespace weft::detail {

Rails::Rails(const Topology& topology, int rank)
    : node(topology.node_of(rank)),
      nodes(topology.nodes()),
      local(topology.local_rank(rank)),
      neighbours(topology.ranks_of(node)),
      rails(static_cast<int>(neighbours.size())) {
  int next = 0;
  for (int other = 0; other < nodes; ++other) {
    const auto& ranks = topology.ranks_of(other);
    rails = std::min(rails, static_cast<int>(ranks.size()));
    even = even && ranks.size() == neighbours.size();
    for (const int one : ranks) even = even && one == next++;
  }
  for (int other = 0; other < nodes; ++other)
    rail.push_back(topology.ranks_of(other)[static_cast<std::size_t>(std::min(local, rails - 1))]);
}

}  // namespace weft::detail
