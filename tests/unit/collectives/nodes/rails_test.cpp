#include "collectives/nodes/rails.hpp"

#include <gtest/gtest.h>

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
  EXPECT_FALSE(Rails(topology, 0).even);
  EXPECT_EQ(Rails(topology, 2).rail, (std::vector{2, 3}));
}

}  // namespace
}  // namespace weft::detail
