#include "common/progress.hpp"

#include <gtest/gtest.h>

namespace weft::tool {
namespace {

TEST(TimeLeft, HasTwoUnitsAtMost) {
  EXPECT_EQ(time_left(-1), "0 s");
  EXPECT_EQ(time_left(0), "0 s");
  EXPECT_EQ(time_left(0.2), "1 s");
  EXPECT_EQ(time_left(59), "59 s");
  EXPECT_EQ(time_left(59.5), "1 min 0 s");
  EXPECT_EQ(time_left(125), "2 min 5 s");
  EXPECT_EQ(time_left(3600 + 20 * 60 + 1), "1 h 20 min");
}

}  // namespace
}  // namespace weft::tool
