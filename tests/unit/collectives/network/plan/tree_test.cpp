#include "collectives/network/plan/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::detail {
namespace {

// Both ends of every edge agree, and every place is reached once: what an exchange needs to end at all.
TEST(Trees, NameEveryEdgeAtBothEnds) {
  for (const Tree tree : {Tree::star, Tree::chain, Tree::binomial}) {
    for (int n = 1; n <= 17; ++n) {
      int edges = 0;
      for (int place = 0; place < n; ++place) {
        const auto handed = summands(tree, place, n);
        edges += static_cast<int>(handed.size());
        for (const int from : handed) EXPECT_EQ(summed_by(tree, from, n), place);
        for (const int to : told(tree, place, n)) EXPECT_EQ(told_by(tree, to), place);
        if (place == 0) continue;
        EXPECT_EQ(std::ranges::count(told(tree, told_by(tree, place), n), place), 1);
        EXPECT_EQ(std::ranges::count(summands(tree, summed_by(tree, place, n), n), place), 1);
      }
      EXPECT_EQ(edges, n - 1);
    }
  }
}

}  // namespace
}  // namespace weft::detail
