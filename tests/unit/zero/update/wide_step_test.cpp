#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/expect_error.hpp"
#include "zero/update/fused_step.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t count = 37;

View view(std::vector<double>& values) {
  return View(std::span(values));
}

TEST(WideStep, FollowsTheTextbook) {
  const zero::AdamW adam{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-6, .weight_decay = 0.3};
  std::vector<double> p(count), m(count), v(count), g(count);
  std::vector<double> expected(count), first(count), second(count);
  for (std::size_t i = 0; i < count; ++i) p[i] = expected[i] = std::sin(static_cast<double>(i));
  for (int step = 1; step <= 20; ++step) {
    const double rate = 0.01 * step;
    for (std::size_t i = 0; i < count; ++i) {
      g[i] = std::cos(static_cast<double>(i) * step);
      first[i] = 0.8 * first[i] + 0.2 * g[i];
      second[i] = 0.9 * second[i] + 0.1 * g[i] * g[i];
      const double mean = first[i] / (1 - std::pow(0.8, step));
      const double square = second[i] / (1 - std::pow(0.9, step));
      expected[i] -= rate * (mean / (std::sqrt(square) + 1e-6) + 0.3 * expected[i]);
    }
    fused_step({.gradient = view(g), .parameters = view(p), .first = view(m), .second = view(v)},
               factors(adam, step, rate, 1), Stream());
  }
  for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(p[i], expected[i], 1e-12);
}

TEST(WideStep, FollowsSgdWithAndWithoutMomentum) {
  for (const double momentum : {0.0, 0.9}) {
    std::vector<double> p(count, 1), v(momentum > 0 ? count : 0), g(count);
    std::vector<double> expected(count, 1), velocity(count);
    for (int step = 1; step <= 20; ++step) {
      for (std::size_t i = 0; i < count; ++i) {
        g[i] = std::cos(static_cast<double>(i) * step);
        velocity[i] = momentum * velocity[i] + g[i];
        expected[i] -= 0.1 * velocity[i];
      }
      wide_step({.gradient = view(g), .parameters = view(p), .first = view(v)},
                factors(zero::Sgd{.momentum = momentum}, step, 0.1, 1));
    }
    for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(p[i], expected[i], 1e-12);
  }
}

TEST(WideStep, RefusesArraysOfOtherTypes) {
  std::vector<double> p(count), m(count), g(count);
  std::vector<float> v(count);
  test::expect_error(ErrorKind::usage, {"37 f32", "all f64"}, [&] {
    wide_step({.gradient = view(g), .parameters = view(p), .first = view(m), .second = View(std::span(v))},
              factors(zero::AdamW{}, 1, 0.1, 1));
  });
}

}  // namespace
}  // namespace weft::detail
