#include "collectives/hierarchy/rails.hpp"

#include <gtest/gtest.h>

#include "support/draw.hpp"

namespace weft::detail {
namespace {

TEST(Rails, CrossEvenNodes) {
  const Topology topology({"a", "a", "b", "b"});
  const Rails last(topology, 3);
  EXPECT_EQ(last.node, 1);
  EXPECT_EQ(last.local, 1);
  EXPECT_EQ(last.rails, 2);
  EXPECT_TRUE(last.even);
  EXPECT_EQ(last.rail, (std::vector{1, 3}));
  EXPECT_EQ(last.neighbours, (std::vector{2, 3}));
}

TEST(Rails, AreAsManyAsTheSmallestNodeHasRanks) {
  const Topology topology({"a", "a", "a", "b"});
  EXPECT_FALSE(Rails(topology, 0).even);
  EXPECT_EQ(Rails(topology, 0).rail, (std::vector{0, 3}));
  EXPECT_TRUE(Rails(topology, 0).on_rail());
  EXPECT_FALSE(Rails(topology, 1).on_rail());
  EXPECT_EQ(Rails(topology, 3).rails, 1);
}

TEST(Rails, KnowRanksThatTakeTurnsOverNodes) {
  const Topology topology({"a", "b", "a", "b"});
  EXPECT_TRUE(Rails(topology, 0).even);
  EXPECT_EQ(Rails(topology, 2).rail, (std::vector{2, 3}));
}

TEST(Rails, OfEvenNodesHoldThePartsOfTheirRails) {
  for (const Topology& topology :
       {Topology({"a", "a", "b", "b", "c", "c"}), Topology({"a", "b", "c", "c", "a", "b"})}) {
    for (int rank = 0; rank < topology.size(); ++rank) {
      const Rails place(topology, rank);
      EXPECT_EQ(place.parts.of, place.rail);
      EXPECT_EQ(place.parts.with, place.rail);
    }
  }
}

/// Every part has one rank on each node that holds it, which its owner knows, and which it is itself on its own; none holds more than one part more
/// than another of its node.
void expect_every_part_once_a_node(const Topology& topology) {
  std::vector<Rails> places;
  for (int rank = 0; rank < topology.size(); ++rank) places.emplace_back(topology, rank);
  for (int node = 0; node < topology.nodes(); ++node) {
    std::vector<int> times(places.size());
    std::size_t most = 0;
    std::size_t least = places.size();
    for (const int rank : topology.ranks_of(node)) {
      const NodeParts& parts = places[static_cast<std::size_t>(rank)].parts;
      most = std::max(most, parts.of.size());
      least = std::min(least, parts.of.size());
      int before = 0;
      for (const int owner : parts.of) {
        ++times[static_cast<std::size_t>(owner)];
        const auto& with = places[static_cast<std::size_t>(owner)].parts.with;
        EXPECT_EQ(with[static_cast<std::size_t>(node)], rank);
        EXPECT_EQ(parts.holders[static_cast<std::size_t>(owner)], topology.local_rank(rank));
        EXPECT_GE(topology.node_of(owner), before);
        before = topology.node_of(owner);
      }
    }
    EXPECT_EQ(times, std::vector<int>(places.size(), 1));
    EXPECT_LE(most, least + 1);
  }
}

TEST(Rails, ShareThePartsOfOtherNodesOutInAnyLayout) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    test::Draw draw(seed);
    std::vector<std::string> nodes;
    const int most = 1 + draw.below(5);
    for (int rank = 1 + draw.below(12); rank > 0; --rank) nodes.push_back(text("node-", draw.below(most)));
    SCOPED_TRACE(seed);
    expect_every_part_once_a_node(Topology(nodes));
  }
}

}  // namespace
}  // namespace weft::detail
