#pragma once
// The ranks of several nodes as rails: one rank of each node, so that every rail reaches all nodes.

#include <algorithm>
#include <vector>

#include "collectives/backend/backend.hpp"
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
  bool even = true;       ///< every node has the same number of ranks
  std::vector<int> rail;  ///< the ranks of its rail, by node
  NodeParts parts;        ///< where nodes are even, those of its rail

 private:
  void deal_parts(const Topology& topology, int rank);
};

inline Rails::Rails(const Topology& topology, int rank)
    : node(topology.node_of(rank)),
      nodes(topology.nodes()),
      local(topology.local_rank(rank)),
      neighbours(topology.ranks_of(node)),
      rails(static_cast<int>(neighbours.size())) {
  for (int other = 0; other < nodes; ++other) {
    const auto& ranks = topology.ranks_of(other);
    rails = std::min(rails, static_cast<int>(ranks.size()));
    even = even && ranks.size() == neighbours.size();
  }
  for (int other = 0; other < nodes; ++other)
    rail.push_back(topology.ranks_of(other)[static_cast<std::size_t>(std::min(local, rails - 1))]);
  deal_parts(topology, rank);
}

// A node deals the parts of all other ranks out to its own, one after the other, so that none has more than one part more than another.
inline void Rails::deal_parts(const Topology& topology, int rank) {
  parts.holders.resize(static_cast<std::size_t>(topology.size()));
  int dealt = 0;
  for (int other = 0; other < nodes; ++other) {
    for (const int owner : topology.ranks_of(other)) {
      int& holder = parts.holders[static_cast<std::size_t>(owner)];
      holder = other == node ? topology.local_rank(owner) : dealt++ % static_cast<int>(neighbours.size());
      if (holder == local) parts.of.push_back(owner);
    }
  }
  for (int other = 0; other < nodes; ++other) {
    const auto& theirs = topology.ranks_of(other);
    int before = 0;  // parts that node deals out before this rank's
    for (int owners = 0; owners < node; ++owners) {
      if (owners != other) before += static_cast<int>(topology.ranks_of(owners).size());
    }
    const auto place = static_cast<std::size_t>(before + local) % theirs.size();
    parts.with.push_back(other == node ? rank : theirs[place]);
  }
}

}  // namespace weft::detail
