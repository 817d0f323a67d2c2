#include "zero/state_split.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::detail {
namespace {

TEST(StateSplit, KeepsTheFirstOfEveryCellOnTheDevice) {
  const StateSplit split({0, 100, 260}, 0.5, 16);
  EXPECT_EQ(split.pieces(0, 260),
            (RecycledVector<StateSplit::Piece>{
                {0, 48, false, 0}, {48, 52, true, 0}, {100, 80, false, 48}, {180, 80, true, 52}}));
  EXPECT_EQ(split.on_device(), 128);
  EXPECT_EQ(split.on_host(), 132);
}

TEST(StateSplit, NoneAndAllAreWholeCells) {
  const StateSplit none({0, 7, 30}, 0, 16);
  EXPECT_EQ(none.on_device(), 30);
  EXPECT_EQ(none.on_host(), 0);
  const StateSplit all({0, 7, 30}, 1, 16);
  EXPECT_EQ(all.on_host(), 30);
  EXPECT_EQ(all.pieces(5, 9), (RecycledVector<StateSplit::Piece>{{5, 2, true, 5}, {7, 2, true, 7}}));
}

// The twin asks for every element alone.
TEST(StateSplit, AnyRangeIsMadeOfWhatItsElementsAre) {
  const std::vector<std::int64_t> bounds{0, 1, 64, 65, 200, 333};
  for (const double share : {0.0, 0.1, 0.5, 0.77, 1.0}) {
    const StateSplit split(bounds, share, 8);
    EXPECT_EQ(split.on_device() + split.on_host(), bounds.back());
    EXPECT_NEAR(static_cast<double>(split.on_host()), share * 333, 4 * 5);
    for (std::int64_t begin = 0; begin < 333; begin += 13) {
      for (std::int64_t end = begin; end <= 333; end += 17) {
        std::int64_t next = begin;
        for (const auto& piece : split.pieces(begin, end)) {
          ASSERT_EQ(piece.begin, next);
          for (std::int64_t i = 0; i < piece.count; ++i) {
            const auto one = split.pieces(next + i, next + i + 1);
            ASSERT_EQ(one.size(), 1U);
            ASSERT_EQ(one.front().on_host, piece.on_host);
            ASSERT_EQ(one.front().at, piece.at + i);
          }
          next += piece.count;
        }
        ASSERT_EQ(next, end);
      }
    }
  }
}

}  // namespace
}  // namespace weft::detail
