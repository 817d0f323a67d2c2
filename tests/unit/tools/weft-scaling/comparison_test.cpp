// Verdicts on made-up steps whose truth is known.

#include "weft-scaling/pages/comparison.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/expect_error.hpp"

namespace weft::report {
namespace {

/// Steps around `middle`. Those of a turn of five share half of their variation.
std::vector<double> steps(double middle, std::size_t count, unsigned seed, double spread = 0.03) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> seconds;
  double turn = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 5 == 0) turn = normal(random);
    seconds.push_back(middle * (1 + spread * (turn + normal(random)) / 2));
  }
  return seconds;
}

Comparison of(std::vector<double> before, std::vector<double> after) {
  return compare("monday.json", {{"ddp", std::move(before)}}, {{"ddp", std::move(after)}});
}

TEST(Comparison, TheRatioIsOfMediansAndOneSlowStepChangesNothing) {
  std::vector<double> before(21, 0.2);
  std::vector<double> after(21, 0.1);
  after[7] = 100;
  const Comparison result = of(before, after);
  ASSERT_EQ(result.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(result.rows[0].before_seconds, 0.2);
  EXPECT_DOUBLE_EQ(result.rows[0].after_seconds, 0.1);
  EXPECT_DOUBLE_EQ(result.rows[0].ratio, 0.5);
  EXPECT_EQ(result.rows[0].verdict, Verdict::improved);
}

TEST(Comparison, AnEvenNumberOfStepsHasItsMedianBetweenTheMiddleTwo) {
  std::vector<double> before(16, 1);
  std::vector<double> after;
  for (int i = 1; i <= 16; ++i) after.push_back(17 - i);
  EXPECT_DOUBLE_EQ(of(before, after).rows[0].ratio, 8.5);
}

TEST(Comparison, VerdictsNeedTheWholeIntervalBeyondTheTolerance) {
  EXPECT_EQ(of(steps(0.2, 40, 1), steps(0.18, 40, 2)).rows[0].verdict, Verdict::improved);
  EXPECT_EQ(of(steps(0.2, 40, 1), steps(0.22, 40, 2)).rows[0].verdict, Verdict::worse);
  EXPECT_EQ(of(steps(0.2, 40, 1), steps(0.2, 40, 2)).rows[0].verdict, Verdict::unchanged);
  // Certain, but smaller than what counts.
  EXPECT_EQ(of(std::vector<double>(40, 1.0), std::vector<double>(40, 0.995)).rows[0].verdict,
            Verdict::unchanged);
  // Larger than what counts, but far from certain.
  const auto row = of(steps(0.2, 20, 3, 0.5), steps(0.19, 20, 4, 0.5)).rows[0];
  EXPECT_LT(row.low, 1 - tolerance);
  EXPECT_GT(row.high, 1 + tolerance);
  EXPECT_EQ(row.verdict, Verdict::unchanged);
}

TEST(Comparison, TheSameSamplesGiveTheSameIntervalWhateverElseRan) {
  const Samples before{"ddp", steps(0.2, 40, 5)};
  const Samples after{"ddp", steps(0.2, 40, 6)};
  const Samples other{"nocomm", steps(0.1, 40, 7)};
  const auto alone = compare("a", {before}, {after}).rows[0];
  const auto beside = compare("a", {other, before}, {other, after}).rows[1];
  EXPECT_EQ(alone.low, beside.low);
  EXPECT_EQ(alone.high, beside.high);
  EXPECT_LT(alone.low, alone.ratio);
  EXPECT_LT(alone.ratio, alone.high);
}

TEST(Comparison, TheIntervalHoldsTheTruthAboutAsOftenAsItSays) {
  int held = 0;
  constexpr int trials = 60;
  for (unsigned trial = 0; trial < trials; ++trial) {
    const auto row = of(steps(0.2, 100, 100 + trial), steps(0.19, 100, 500 + trial)).rows[0];
    if (row.low <= 0.95 && 0.95 <= row.high) ++held;
  }
  // 95 % in the limit, about 91 % of twenty turns, and 78 % when steps are drawn one by one.
  EXPECT_GE(held, trials * 86 / 100);
}

TEST(Comparison, StepsThatResembleTheirNeighboursCountForLess) {
  // The same numbers twice; only where turns are alike may they be a trend.
  const std::vector<double> turns = steps(0.2, 200, 9, 0.1);
  std::vector<double> mixed = turns;
  std::ranges::shuffle(mixed, std::mt19937(1));
  const std::vector<double> steady(200, 0.2);
  const auto alike = of(steady, turns).rows[0];
  const auto independent = of(steady, mixed).rows[0];
  EXPECT_GT(alike.high - alike.low, 1.15 * (independent.high - independent.low));
}

TEST(Comparison, StrategiesOfOneRunOnlyAreListed) {
  const Comparison result = compare("monday.json", {{"ddp", steps(0.2, 20, 1)}, {"zero1", steps(0.2, 20, 2)}},
                                    {{"nocomm", steps(0.2, 20, 3)}, {"ddp", steps(0.1, 20, 4)}});
  ASSERT_EQ(result.rows.size(), 1u);
  EXPECT_EQ(result.rows[0].strategy, "ddp");
  EXPECT_EQ(result.only_before, std::vector<std::string>{"zero1"});
  EXPECT_EQ(result.only_after, std::vector<std::string>{"nocomm"});
  const std::string lines = to_text(result);
  EXPECT_NE(lines.find("zero1: only in the earlier run\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find("nocomm: not in the earlier run\n"), std::string::npos) << lines;
}

TEST(Comparison, TheTextNamesRatioIntervalAndVerdict) {
  EXPECT_EQ(to_text(of(std::vector<double>(20, 0.25), std::vector<double>(20, 0.2))),
            "ddp: 0.800 (0.800 to 0.800) of the earlier step: improved\n");
}

TEST(Comparison, WhatSendsNothingTellsThatTheMachineChanged) {
  const std::vector<double> slow(20, 0.25);
  const std::vector<double> fast(20, 0.2);
  const Comparison machine =
      compare("a", {{"nocomm", slow}, {"ddp", slow}}, {{"nocomm", fast}, {"ddp", fast}});
  EXPECT_TRUE(computing_changed(machine));
  EXPECT_NE(to_text(machine).find("nocomm sends nothing and changed"), std::string::npos);
  const Comparison sending =
      compare("a", {{"nocomm", fast}, {"ddp", slow}}, {{"nocomm", fast}, {"ddp", fast}});
  EXPECT_FALSE(computing_changed(sending));
  EXPECT_EQ(to_text(sending).find("nocomm sends nothing"), std::string::npos);
  EXPECT_FALSE(computing_changed(of(slow, fast)));
}

TEST(Comparison, RefusesTooFewStepsAndStepsThatAreNoTimes) {
  const std::vector<double> good(fewest_samples, 0.2);
  EXPECT_EQ(of(good, good).rows[0].ratio, 1);
  test::expect_error(ErrorKind::usage, {"'ddp' has 14 steps", "earlier run", "15 or more"},
                     [&] { (void)of(std::vector<double>(fewest_samples - 1, 0.2), good); });
  std::vector<double> bad = good;
  for (const double wrong : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    bad[3] = wrong;
    test::expect_error(ErrorKind::usage, {"'ddp' has a step of", "later run"}, [&] { (void)of(good, bad); });
  }
}

}  // namespace
}  // namespace weft::report
