#include "zero/offload/state_layout.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::detail {
namespace {

TEST(StateSplit, KeepsTheFirstOfEveryCellOnTheDevice) {
  const StateSplit split({0, 100, 260}, 0.5, 0, 16);
  EXPECT_EQ(split.pieces(0, 260),
            (RecycledVector<StateSplit::Piece>{
                {0, 48, false, 0}, {48, 52, true, 0}, {100, 80, false, 48}, {180, 80, true, 52}}));
  EXPECT_EQ(split.on_device(), 128);
  EXPECT_EQ(split.offloaded(), 132);
}

TEST(StateSplit, NoneAndAllAreWholeCells) {
  const StateSplit none({0, 7, 30}, 0, 0, 16);
  EXPECT_EQ(none.on_device(), 30);
  EXPECT_EQ(none.offloaded(), 0);
  const StateSplit all({0, 7, 30}, 1, 0, 16);
  EXPECT_EQ(all.offloaded(), 30);
  EXPECT_EQ(all.pieces(5, 9), (RecycledVector<StateSplit::Piece>{{5, 2, true, 5}, {7, 2, true, 7}}));
}

TEST(StateSplit, HasTheLastOfEveryCellInTheFileBehindWhatIsInMemory) {
  const StateSplit split({0, 100, 260}, 0.5, 0.25, 16);
  EXPECT_EQ(split.pieces(0, 260), (RecycledVector<StateSplit::Piece>{{0, 48, false, 0},
                                                                     {48, 32, true, 0},
                                                                     {80, 20, true, 96},
                                                                     {100, 80, false, 48},
                                                                     {180, 64, true, 32},
                                                                     {244, 16, true, 116}}));
  EXPECT_EQ(split.in_memory(), 96);
  EXPECT_EQ(split.in_file(), 36);
  EXPECT_EQ(split.file_bounds(), (std::vector<std::int64_t>{0, 20, 36}));
  const StateSplit all({0, 7, 30}, 1, 1, 16);
  EXPECT_EQ(all.in_memory(), 0);
  EXPECT_EQ(all.file_bounds(), (std::vector<std::int64_t>{0, 7, 30}));
}

// The reference asks for every element alone.
TEST(StateSplit, AnyRangeIsMadeOfWhatItsElementsAre) {
  const std::vector<std::int64_t> bounds{0, 1, 64, 65, 200, 333};
  for (const auto& [share, file_share] :
       {std::pair{0.0, 0.5}, {0.1, 0.0}, {0.5, 0.3}, {0.77, 1.0}, {1.0, 0.6}}) {
    const StateSplit split(bounds, share, file_share, 8);
    EXPECT_EQ(split.on_device() + split.offloaded(), bounds.back());
    EXPECT_NEAR(static_cast<double>(split.offloaded()), share * 333, 4 * 5);
    EXPECT_NEAR(static_cast<double>(split.in_file()), share * file_share * 333, 8 * 5);
    EXPECT_EQ(split.file_bounds().back(), split.in_file());
    for (std::int64_t begin = 0; begin < 333; begin += 13) {
      for (std::int64_t end = begin; end <= 333; end += 17) {
        std::int64_t next = begin;
        for (const auto& piece : split.pieces(begin, end)) {
          ASSERT_EQ(piece.begin, next);
          for (std::int64_t i = 0; i < piece.count; ++i) {
            const auto one = split.pieces(next + i, next + i + 1);
            ASSERT_EQ(one.size(), 1U);
            ASSERT_EQ(one.front().offloaded, piece.offloaded);
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
