#include "schedule.hpp"

#include <gtest/gtest.h>

namespace weft::examples {
namespace {

TEST(LearningRate, RisesLinearlyThenFallsAlongACosineToItsFloor) {
  const Schedule schedule{.warmup_steps = 4, .steps = 14, .floor = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate(0, schedule), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(3, schedule), 1);
  EXPECT_DOUBLE_EQ(learning_rate(4, schedule), 1);
  EXPECT_DOUBLE_EQ(learning_rate(9, schedule), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(14, schedule), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(99, schedule), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(99, {.warmup_steps = 4}), 1);
}

}  // namespace
}  // namespace weft::examples
