#pragma once
// The ranks of several nodes as rails: one rank of each node, so that every rail reaches all nodes.

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

}  // namespace weft::detail
