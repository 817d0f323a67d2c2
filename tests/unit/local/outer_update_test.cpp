// The rules of outer optimizers against slow twins: one element at a time, rounded as the header says, and in double precision
// as torch.optim.SGD(nesterov=True, dampening=0) describes itself.

#include "local/outer_update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/draw.hpp"
#include "support/expect_error.hpp"
#include "weft/core/buffer.hpp"

namespace weft {
namespace {

using test::expect_error;

/// Keeps the compiler from fusing a product and a sum.
template <class Real>
Real rounded(Real value) {
  volatile Real kept = value;
  return kept;
}

template <class Real>
struct Twin {
  Real outer, momentum = 0;
  void nesterov(Real mean, Real rate, Real factor) {
    momentum = rounded(rounded(momentum * factor) + mean);
    const Real step = rounded(rounded(momentum * factor) + mean);
    outer = rounded(outer + rounded(step * -rate));
  }
  void average(Real mean) { outer = rounded(outer - mean); }
};

/// As torch's documentation has it, without any thought of rounding.
struct Described {
  double parameter, buffer = 0;
  bool is_first = true;
  void step(double gradient, double rate, double momentum) {
    buffer = is_first ? gradient : momentum * buffer + gradient;
    is_first = false;
    gradient = gradient + momentum * buffer;
    parameter -= rate * gradient;
  }
};

template <class Real>
void expect_the_twins_values(const OuterOptimizer& rule, double mixing = 0) {
  constexpr std::size_t count = 1000;
  std::vector<Real> outer(count), momentum(count), mean(count), now(count), scratch(count), own(count);
  std::vector<Twin<Real>> twins;
  std::vector<Described> described;
  for (std::size_t i = 0; i < count; ++i) {
    outer[i] = static_cast<Real>(test::normal(1, i));
    twins.push_back({outer[i]});
    described.push_back({static_cast<double>(outer[i])});
  }
  const auto* const nesterov = std::get_if<OuterNesterov>(&rule);
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < count; ++i) {
      mean[i] = static_cast<Real>(0.1 * test::normal(2 + step, i));
      if (nesterov != nullptr) {
        twins[i].nesterov(mean[i], static_cast<Real>(nesterov->learning_rate),
                          static_cast<Real>(nesterov->momentum));
        described[i].step(static_cast<double>(mean[i]), nesterov->learning_rate, nesterov->momentum);
      } else {
        twins[i].average(mean[i]);
        described[i].step(static_cast<double>(mean[i]), 1, 0);
      }
      own[i] = static_cast<Real>(test::normal(100 + step, i));
      now[i] = mixing == 0 ? std::numeric_limits<Real>::quiet_NaN() : own[i];  // NaN must not matter
    }
    detail::update(rule,
                   {View(std::span(outer)), nesterov != nullptr ? View(std::span(momentum)) : View(),
                    View(std::span(mean)), View(std::span(now)), mixing,
                    mixing == 0 ? View() : View(std::span(scratch))},
                   Stream());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(outer[i], twins[i].outer) << "element " << i << ", step " << step;
      const Real mixed = rounded(rounded(static_cast<Real>(mixing) * own[i]) +
                                 rounded(static_cast<Real>(1 - mixing) * outer[i]));
      ASSERT_EQ(now[i], mixing == 0 ? outer[i] : mixed);
      ASSERT_NEAR(static_cast<double>(outer[i]), described[i].parameter,
                  1000 * std::numeric_limits<Real>::epsilon());
    }
  }
}

TEST(OuterUpdate, NesterovIsThatOfTorch) {
  for (const OuterNesterov& rule : {OuterNesterov{}, OuterNesterov{1, 0}, OuterNesterov{0.5, 0.99}}) {
    expect_the_twins_values<float>(rule);
    expect_the_twins_values<double>(rule);
  }
}

TEST(OuterUpdate, AverageIsNesterovOfRateOneWithoutMomentum) {
  expect_the_twins_values<float>(OuterAverage{});
  expect_the_twins_values<double>(OuterAverage{});
}

TEST(OuterUpdate, MixesARanksOwnParametersWithTheOuterOnes) {
  for (const double mixing : {0.5, 0.1, 0.9}) {
    expect_the_twins_values<float>(OuterNesterov{}, mixing);
    expect_the_twins_values<double>(OuterNesterov{}, mixing);
    expect_the_twins_values<float>(OuterAverage{}, mixing);
  }
}

TEST(OuterUpdate, ADifferenceIsOuterMinusNow) {
  const std::vector<float> outer{3, 1, 0, 1e8F}, now{1, 4, 0, 1};
  std::vector<float> to(4, std::numeric_limits<float>::quiet_NaN());
  detail::difference(View(std::span(to)), ConstView(std::span(outer)), ConstView(std::span(now)), Stream());
  for (std::size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], outer[i] - now[i]);
}

TEST(OuterUpdate, RatesOutOfRangeAreRefused) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  for (const double rate : {0., -1., nan, infinite})
    expect_error(ErrorKind::usage, {"outer learning rate", text(rate)},
                 [&] { detail::check(OuterNesterov{.learning_rate = rate}); });
  for (const double momentum : {-0.1, 1., nan})
    expect_error(ErrorKind::usage, {"outer momentum", text(momentum)},
                 [&] { detail::check(OuterNesterov{.momentum = momentum}); });
  detail::check(OuterNesterov{.learning_rate = 1, .momentum = 0});
  detail::check(OuterAverage{});
}

}  // namespace
}  // namespace weft
