#include "zero/offload/state_file.hpp"

#include <gtest/gtest.h>

namespace weft::detail {
namespace {

TEST(StateFrames, EndWhereCellsDoAndAreWholeBlocks) {
  const StateFrames frames({0, 1000, 1003, 4000}, 2048, {2, 4, 4});
  using Frame = StateFrames::Frame;
  EXPECT_EQ(
      frames.frames(),
      (std::vector<Frame>{
          {.begin = 0, .count = 1000, .offset = 0, .bytes = 12288, .arrays_at = {0, 2048, 6144}},
          {.begin = 1000, .count = 3, .offset = 12288, .bytes = 4096, .arrays_at = {0, 128, 256}},
          {.begin = 1003, .count = 2048, .offset = 16384, .bytes = 20480, .arrays_at = {0, 4096, 12288}},
          {.begin = 3051, .count = 949, .offset = 36864, .bytes = 12288, .arrays_at = {0, 1920, 5760}}}));
  EXPECT_EQ(frames.elements(), 4000);
  EXPECT_EQ(frames.file_bytes(), 49152U);
  EXPECT_EQ(frames.ring_bytes(), 4U * 20480 + 4096) << "and a block for aligning them";
  for (std::int64_t i = 0; i < 4000; ++i) {
    ASSERT_LE(frames.of(i).begin, i);
    ASSERT_LT(i, frames.of(i).begin + frames.of(i).count);
  }
}

TEST(StateFrames, NeedNoMorePlacesThanThereAre) {
  EXPECT_EQ(StateFrames({0, 10}, 5, {0, 4, 0}).ring_bytes(), 3U * 4096);
  EXPECT_EQ(StateFrames().ring_bytes(), 0U);
  EXPECT_EQ(StateFrames({0}, 5, {0, 4, 0}).file_bytes(), 0U);
}

}  // namespace
}  // namespace weft::detail
