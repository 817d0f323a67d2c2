// Optimizers against the textbook formulas, one double at a time.

#include "optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "random.hpp"
#include "weft/core/error.hpp"

namespace weft::examples {
namespace {

template <class T>
View view(std::vector<T>& elements) {
  return View(std::span(elements));
}

constexpr std::size_t count = 37;

double gradient(std::size_t step, std::size_t i) {
  return 0.1 * random_normal(1, step, i);
}

struct Scalar {
  double value = 0;
  double m = 0;
  double v = 0;
};

void adamw(Scalar& p, double g, int step, double rate, const OptimizerSpec& spec) {
  p.m = spec.beta1 * p.m + (1 - spec.beta1) * g;
  p.v = spec.beta2 * p.v + (1 - spec.beta2) * g * g;
  const double m = p.m / (1 - std::pow(spec.beta1, step));
  const double v = p.v / (1 - std::pow(spec.beta2, step));
  p.value -= rate * (m / (std::sqrt(v) + spec.epsilon) + spec.weight_decay * p.value);
}

template <class Real, class Update>
double largest_difference(const OptimizerSpec& spec, Update update) {
  const auto optimizer = make_optimizer<Real>(count, spec);
  std::vector<Real> parameters(count);
  std::vector<Scalar> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    parameters[i] = static_cast<Real>(random_normal(2, 2, i));
    expected[i].value = static_cast<double>(parameters[i]);
  }
  std::vector<Real> gradients(count);
  for (int step = 1; step <= 20; ++step) {
    const double rate = 0.01 * step;
    for (std::size_t i = 0; i < count; ++i) {
      gradients[i] = static_cast<Real>(gradient(static_cast<std::size_t>(step), i));
      update(expected[i], static_cast<double>(gradients[i]), step, rate);
    }
    optimizer->step(view(parameters), view(gradients), rate);
  }
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(parameters[i]) - expected[i].value));
  }
  return largest;
}

TEST(Optimizer, AdamWFollowsItsFormula) {
  const OptimizerSpec spec{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-6, .weight_decay = 0.3};
  const auto update = [&](Scalar& p, double g, int step, double rate) { adamw(p, g, step, rate, spec); };
  EXPECT_LT(largest_difference<double>(spec, update), 1e-12);
  EXPECT_LT(largest_difference<float>(spec, update), 1e-5);
}

TEST(Optimizer, SgdFollowsItsFormulaWithAndWithoutMomentum) {
  for (const double momentum : {0.0, 0.9}) {
    const OptimizerSpec spec{.kind = OptimizerKind::sgd, .momentum = momentum};
    const auto update = [&](Scalar& p, double g, int, double rate) {
      p.v = momentum * p.v + g;
      p.value -= rate * p.v;
    };
    EXPECT_LT(largest_difference<double>(spec, update), 1e-12);
    EXPECT_LT(largest_difference<float>(spec, update), 1e-5);
  }
}

TEST(Optimizer, TwoShardsTogetherHaveTheBitsOfTheWhole) {
  const OptimizerSpec spec;
  std::vector<float> whole(count, 0.5F);
  std::vector<float> parts = whole;
  std::vector<float> gradients(count);
  AdamW<float> all(host_math<float>(), count, spec);
  AdamW<float> left(host_math<float>(), 16, spec);
  AdamW<float> right(host_math<float>(), count - 16, spec);
  for (std::size_t step = 0; step < 5; ++step) {
    for (std::size_t i = 0; i < count; ++i) gradients[i] = static_cast<float>(gradient(step, i));
    all.step(view(whole), view(gradients));
    left.step(view(parts).slice(0, 16), view(gradients).slice(0, 16));
    right.step(view(parts).slice(16, count - 16), view(gradients).slice(16, count - 16));
  }
  EXPECT_EQ(whole, parts);
}

TEST(Optimizer, AStepInPiecesHasTheBitsOfAWholeOne) {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    const OptimizerSpec spec{.kind = kind, .momentum = 0.9};
    std::vector<float> whole(count, 0.5F);
    std::vector<float> pieces = whole;
    std::vector<float> gradients(count);
    const auto at_once = make_optimizer<float>(count, spec);
    const auto in_pieces = make_optimizer<float>(count, spec);
    for (std::size_t step = 0; step < 5; ++step) {
      for (std::size_t i = 0; i < count; ++i) gradients[i] = static_cast<float>(gradient(step, i));
      at_once->step(view(whole), view(gradients), 0.01);
      in_pieces->begin_step(0.01);
      for (const auto& [begin, length] : {std::pair{20, 17}, {0, 3}, {3, 17}}) {
        in_pieces->update(begin, view(pieces).slice(begin, length), view(gradients).slice(begin, length));
      }
    }
    EXPECT_EQ(whole, pieces);
  }
}

TEST(Optimizer, StateIsCountedInBytes) {
  EXPECT_EQ(AdamW<float>(host_math<float>(), 10, {}).state_bytes(), 80);
  EXPECT_EQ(Sgd<double>(host_math<double>(), 10, {.momentum = 0.9}).state_bytes(), 80);
  EXPECT_EQ(Sgd<double>(host_math<double>(), 10, {.momentum = 0}).state_bytes(), 0);
}

TEST(Optimizer, ViewsOfAnotherLengthTypeOrDeviceAreRefused) {
  AdamW<float> adam(host_math<float>(), 4, {});
  std::vector<float> four(4);
  std::vector<float> five(5);
  EXPECT_THROW(adam.step(view(four), view(five)), Error);
  EXPECT_THROW(adam.step(view(five), view(four)), Error);
  EXPECT_THROW(adam.step(view(four).slice(0, 3), view(four).slice(0, 3)), Error);
  EXPECT_THROW(adam.update(1, view(four), view(four)), Error);
  EXPECT_THROW(adam.update(-1, view(four).slice(0, 2), view(four).slice(0, 2)), Error);
  std::vector<double> wide(4);
  EXPECT_THROW(adam.step(view(wide), view(wide)), Error);
  EXPECT_THROW(adam.step(view(four), ConstView(four.data(), 4, DataType::f32, Device::cuda(0))), Error);
}

TEST(Optimizer, TheLearningRateRisesLinearlyThenFallsAlongACosineToItsFloor) {
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
