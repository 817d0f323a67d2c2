#pragma once
// Which ranks share a node. A value, the same on every rank; nodes are numbered in the order of their first
// rank.

#include <string>
#include <vector>

namespace weft {

class Topology {
 public:
  Topology() = default;
  /// @param hosts each rank's host name, by rank
  explicit Topology(const std::vector<std::string>& hosts);

  int size() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(ranks_of_.size()); }
  /// @throws Error (usage), here and below, for a rank or a node that is not there
  int node_of(int rank) const { return node_of_[known(rank, size(), "rank")]; }
  /// Ranks of a node, ascending.
  const std::vector<int>& ranks_of(int node) const { return ranks_of_[known(node, nodes(), "node")]; }
  /// Place of a rank among those of its node.
  int local_rank(int rank) const;
  /// The topology of some of the ranks, renumbered in the order given.
  Topology of(const std::vector<int>& members) const;

 private:
  static std::size_t known(int number, int count, const char* what) {
    if (number < 0 || number >= count) refuse(number, count, what);
    return static_cast<std::size_t>(number);
  }
  [[noreturn]] static void refuse(int number, int count, const char* what);

  std::vector<int> node_of_;
  std::vector<std::vector<int>> ranks_of_;
};

}  // namespace weft
