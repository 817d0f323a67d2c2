#include "zero/plan/step_factors.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.hpp"
#include "unit/zero/update/some_step.hpp"

namespace weft::test {
namespace {

using detail::factors;

TEST(StepFactors, FoldedConstantsMakeTheTextbooksSteps) {
  for (const zero::Optimizer& rule : all_rules()) {
    Textbook want{0.5, 0, 0};
    Textbook got = want;
    for (std::int64_t step = 1; step <= 50; ++step) {
      const double g = std::sin(static_cast<double>(step)) * 64;
      const double rate = 1e-2 / static_cast<double>(step);
      want = textbook(rule, step, rate, 1.0 / 64, g, want.parameter, want.first, want.second);
      const detail::StepFactors f = factors(rule, step, rate, 1.0 / 64);
      const double scaled = f.gradient_scale * g + f.pull * got.parameter;
      got.first = f.beta1 * got.first + f.fresh1 * scaled;
      got.second = f.beta2 * got.second + f.fresh2 * scaled * scaled;
      const double along = f.moments() == 2 ? got.first / (std::sqrt(got.second) + f.epsilon) : got.first;
      got.parameter = f.keep * got.parameter - f.rate * along;
    }
    EXPECT_NEAR(got.parameter, want.parameter, 1e-13) << rule.index();
  }
}

TEST(StepFactors, KnowsWhatAStepKeeps) {
  EXPECT_EQ(factors(zero::AdamW{}, 1, 1e-3, 1).moments(), 2);
  EXPECT_EQ(factors(zero::Adam{}, 1, 1e-3, 1).moments(), 2);
  EXPECT_EQ(factors(zero::Sgd{.momentum = 0.9}, 1, 1e-3, 1).moments(), 1);
  EXPECT_EQ(factors(zero::Sgd{}, 1, 1e-3, 1).moments(), 0);
}

TEST(StepFactors, TakesTheRateOfTheStep) {
  EXPECT_EQ(factors(zero::Sgd{.learning_rate = 5}, 7, 0.25, 1).rate, 0.25);
  EXPECT_EQ(factors(zero::AdamW{.learning_rate = 5, .weight_decay = 0.5}, 7, 0.25, 1).keep, 0.875);
}

TEST(StepFactors, RefusesWhatIsOutOfRangeByName) {
  const auto refused = [](const zero::Optimizer& rule, std::initializer_list<std::string> parts) {
    expect_error(ErrorKind::usage, parts, [&] { detail::check(rule); });
    expect_error(ErrorKind::usage, parts, [&] { factors(rule, 1, 1e-3, 1); });
  };
  refused(zero::AdamW{.learning_rate = -1}, {"learning_rate is -1", "finite number of 0 or more"});
  refused(zero::AdamW{.beta1 = 1}, {"beta1 is 1", "0 or more, and less than 1"});
  refused(zero::Adam{.beta2 = -0.5}, {"beta2 is -0.5"});
  refused(zero::Adam{.beta2 = NAN}, {"beta2 is nan"});
  refused(zero::AdamW{.epsilon = 0}, {"epsilon is 0", "1e-18 to 1"});
  refused(zero::AdamW{.weight_decay = INFINITY}, {"weight_decay is inf"});
  refused(zero::Sgd{.momentum = 1.5}, {"momentum is 1.5"});
  expect_error(ErrorKind::usage, {"step is 0", "count from 1"}, [] { factors(zero::Sgd{}, 0, 1e-3, 1); });
  expect_error(ErrorKind::usage, {"the step's learning rate is nan"},
               [] { factors(zero::Sgd{}, 1, NAN, 1); });
  expect_error(ErrorKind::usage, {"gradient_scale is inf"}, [] { factors(zero::Sgd{}, 1, 1e-3, INFINITY); });
}

}  // namespace
}  // namespace weft::test
