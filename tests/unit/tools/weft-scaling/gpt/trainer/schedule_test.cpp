#include "weft-scaling/gpt/trainer/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.hpp"

namespace weft::examples {
namespace {

TEST(LearningRate, RisesLinearlyThenFallsAlongACosineToItsFloor) {
  const RateSchedule schedule{.warmup_steps = 4, .steps = 14, .floor = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate(0, schedule), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(3, schedule), 1);
  EXPECT_DOUBLE_EQ(learning_rate(4, schedule), 1);
  EXPECT_DOUBLE_EQ(learning_rate(9, schedule), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(14, schedule), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(99, schedule), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(99, {.warmup_steps = 4}), 1);
}

TEST(RecipeChanges, SetWhatIsGivenAndLeaveTheRest) {
  const OptimizerSpec own{.learning_rate = 2e-3, .beta1 = 0.6, .warmup_steps = 3, .final_fraction = 0.6};
  const OptimizerSpec same = changed(own, {});
  EXPECT_EQ(same.learning_rate, 2e-3);
  EXPECT_EQ(same.final_fraction, 0.6);
  EXPECT_EQ(same.warmup_steps, 3);
  EXPECT_EQ(same.beta1, 0.6);
  const OptimizerSpec other =
      changed(own, {.learning_rate = 1e-3, .final_fraction = 0.0, .warmup_steps = 20, .beta1 = 0.9});
  EXPECT_EQ(other.learning_rate, 1e-3);
  EXPECT_EQ(other.final_fraction, 0);
  EXPECT_EQ(other.warmup_steps, 20);
  EXPECT_EQ(other.beta1, 0.9);
}

TEST(RecipeChanges, RefuseWhatNoScheduleHas) {
  const auto refuses = [](const RecipeChanges& changes, const char* words) {
    test::expect_error(ErrorKind::usage, {words}, [&] { (void)changed({}, changes); });
  };
  refuses({.learning_rate = 0.0}, "--learning-rate 0 is not above 0 and at most 1");
  refuses({.learning_rate = 1.5}, "--learning-rate 1.5 is not above 0 and at most 1");
  refuses({.learning_rate = std::nan("")}, "--learning-rate nan is not above 0");
  refuses({.final_fraction = -0.1}, "--final-fraction -0.1 is not a number from 0 to 1");
  refuses({.final_fraction = 2.0}, "--final-fraction 2 is not a number from 0 to 1");
  refuses({.warmup_steps = -1}, "--warmup -1 is not a number from 0 to 1000000");
  refuses({.beta1 = 1.0}, "--beta1 1 is not a number from 0 to below 1");
}

}  // namespace
}  // namespace weft::examples
