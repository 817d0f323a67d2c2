#include "weft/zero/loss_scaler.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft::zero {
namespace {

TEST(LossScaler, DoublesAfterAnIntervalWithoutOverflow) {
  LossScaler scaler({.initial = 8, .growth_interval = 3});
  for (const double expected : {8.0, 8.0, 16.0, 16.0, 16.0, 32.0}) {
    scaler.update(false);
    EXPECT_EQ(scaler.scale(), expected);
  }
  EXPECT_EQ(scaler.skipped(), 0);
}

TEST(LossScaler, HalvesWhenHysteresisIsUsedUp) {
  LossScaler scaler({.initial = 64, .growth_interval = 4, .hysteresis = 2});
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 64);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 32);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16);
  for (int i = 0; i < 4; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 32);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 32) << "growth refills hysteresis";
  EXPECT_EQ(scaler.skipped(), 4);
}

TEST(LossScaler, AnOverflowBeginsTheIntervalAnew) {
  LossScaler scaler({.initial = 8, .growth_interval = 2, .hysteresis = 5});
  for (int i = 0; i < 3; ++i) {
    scaler.update(false);
    scaler.update(true);
  }
  EXPECT_EQ(scaler.scale(), 8);
}

TEST(LossScaler, EndsAtItsMinimum) {
  LossScaler scaler({.initial = 2, .minimum = 1, .hysteresis = 1});
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1);
  test::expect_error(ErrorKind::usage, {"smallest loss scale, 1", "diverged"}, [&] { scaler.update(true); });
}

TEST(LossScaler, RefusesOptionsThatCannotBe) {
  test::expect_error(ErrorKind::usage, {"initial", "0.5"}, [] { LossScaler({.initial = 0.5}); });
  test::expect_error(ErrorKind::usage, {"minimum", "0"}, [] { LossScaler({.minimum = 0}); });
  test::expect_error(ErrorKind::usage, {"growth_interval", "0"}, [] { LossScaler({.growth_interval = 0}); });
  test::expect_error(ErrorKind::usage, {"hysteresis", "0"}, [] { LossScaler({.hysteresis = 0}); });
}

}  // namespace
}  // namespace weft::zero
