#pragma once
// The ranks of several nodes as rails: one rank of each node, so that every rail reaches all nodes.

#include <algorithm>
#include <vector>

#include "weft/collectives/topology.hpp"

namespace weft::detail {

/// Where a rank stands among nodes and rails. There are as many rails as the smallest node has ranks.
struct Rails {
  Rails(const Topology& topology, int rank);
  bool on_rail() const { return local < rails; }

  int node;
  int nodes;
  int local;                    ///< its place on its node, and the number of its rail
  std::vector<int> neighbours;  ///< the ranks of its node
  int rails = 1;
  bool even = true;       ///< every node has the same number of ranks, and they follow each other
  std::vector<int> rail;  ///< the ranks of its rail, by node
};

inline Rails::Rails(const Topology& topology, int rank)
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
