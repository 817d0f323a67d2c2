#include "weft/collectives/topology.hpp"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Topology, NumbersNodesByTheirFirstRank) {
  const Topology topology({"b", "a", "b", "c", "a"});
  EXPECT_EQ(topology.nodes(), 3);
  EXPECT_EQ(topology.node_of(0), 0);
  EXPECT_EQ(topology.node_of(1), 1);
  EXPECT_EQ(topology.node_of(3), 2);
  EXPECT_EQ(topology.ranks_of(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(topology.local_rank(4), 1);
  EXPECT_EQ(topology.local_rank(3), 0);
}

TEST(Topology, SomeOfTheRanksKeepTheirNeighbours) {
  const Topology some = Topology({"b", "a", "b", "c", "a"}).of({4, 3, 1});
  EXPECT_EQ(some.size(), 3);
  EXPECT_EQ(some.nodes(), 2);
  EXPECT_EQ(some.ranks_of(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(some.ranks_of(1), (std::vector<int>{1}));
}

}  // namespace
}  // namespace weft
