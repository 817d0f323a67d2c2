#include "zero/update/fused_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.hpp"
#include "unit/zero/update/some_step.hpp"
#if WEFT_HAS_HIGHWAY
#include <hwy/targets.h>
#endif

namespace weft::test {
namespace {

using detail::factors;

/// Calls `function` with every instruction set of this machine; once in a build without Highway.
template <class Function>
void with_every_target(const Function& function) {
#if WEFT_HAS_HIGHWAY
  const std::int64_t all = hwy::SupportedTargets();
  for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
    hwy::GetChosenTarget().Update(rest & -rest);
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    function();
  }
  hwy::GetChosenTarget().Update(all);
#else
  function();
#endif
}

class EveryStep : public testing::TestWithParam<std::tuple<Form, DataType>> {
 protected:
  Form form() const { return std::get<0>(GetParam()); }
  DataType gradient_type() const { return std::get<1>(GetParam()); }
};

TEST_P(EveryStep, HasTheBitsOfPlainLoopsWithEveryInstructionSet) {
  with_every_target([&] {
    for (const zero::Optimizer& rule : all_rules()) {
      for (std::int64_t count = 0; count <= 70; ++count) {
        SomeStep fast(form(), gradient_type(), count, count % 7);
        fast.draw(static_cast<unsigned>(count));
        SomeStep slow = fast;
        const auto constants = factors(rule, 1 + count, 1e-2, 1.0 / 3);
        detail::update(fast.arrays(), constants);
        detail::plain::update(slow.arrays(), constants);
        ASSERT_EQ(fast.differs_at(slow), -1) << "of " << count << ", rule " << rule.index();
      }
    }
  });
}

TEST_P(EveryStep, HasTheSameBitsWhereverItIsCut) {
  constexpr std::int64_t count = 150;
  for (const zero::Optimizer& rule : all_rules()) {
    SomeStep fresh(form(), gradient_type(), count);
    fresh.draw(3);
    SomeStep whole = fresh;
    const auto constants = factors(rule, 2, 1e-2, 0.5);
    detail::update(whole.arrays(), constants);
    for (std::int64_t cut = 0; cut <= count; ++cut) {
      SomeStep parts = fresh;
      detail::update(parts.arrays(cut), constants);
      detail::update(parts.arrays(0, cut), constants);
      ASSERT_EQ(parts.differs_at(whole), -1) << "cut at " << cut << ", rule " << rule.index();
    }
  }
}

TEST_P(EveryStep, WritesNothingButItsElements) {
  for (const zero::Optimizer& rule : all_rules()) {
    SomeStep step(form(), gradient_type(), 40);
    step.draw(4);
    SomeStep before = step;
    const auto constants = factors(rule, 1, 1e-2, 1);
    detail::update(step.arrays(3, 38), constants);
    detail::plain::update(before.arrays(3, 38), constants);
    EXPECT_EQ(step.differs_at(before), -1);
    EXPECT_EQ(step.gradient, before.gradient);
  }
}

// Compares with f64 and exact roots and quotients: the difference is the last rounding.
TEST_P(EveryStep, IsWithinTheLastPlaceOfTheTextbook) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  constexpr std::int64_t count = 4000;
  for (zero::Optimizer rule : all_rules()) {
    for (const std::int64_t number : {1, 2, 1000}) {
      if (auto* adamw = std::get_if<zero::AdamW>(&rule)) adamw->epsilon = number == 2 ? 1e-13 : 1e-8;
      SomeStep step(form(), gradient_type(), count);
      const auto wild = [&](int powers) {
        return static_cast<float>(std::ldexp(normal(random), -static_cast<int>(random() % powers)));
      };
      for (std::int64_t i = 0; i < count; ++i)
        step.set(i, wild(30), i % 5 == 0 ? 0.0F : wild(20), i % 7 == 0 ? 0.0F : wild(30),
                 i % 11 == 0 ? 0.0F : std::abs(wild(60)));
      SomeStep before = step;
      constexpr double rate = 3e-2;
      constexpr double scale = 1.0 / 3;
      detail::update(step.arrays(), factors(rule, number, rate, scale));
      for (std::int64_t i = 0; i < count; ++i) {
        const double g = static_cast<double>(before.gradient_at(i));
        const double p = static_cast<double>(before.parameter_at(i));
        const double m = static_cast<double>(before.first_at(i));
        const double v = static_cast<double>(before.second_at(i));
        const Textbook want = textbook(rule, number, rate, scale, g, p, m, v);
        const auto off = [&](double got, double exact, double largest) {
          return std::abs(got - exact) / last_place(largest);
        };
        // The rounding alone is half a place.
        ASSERT_LE(off(static_cast<double>(step.parameter_at(i)), want.parameter,
                      std::max(std::abs(p), std::abs(want.parameter))),
                  0.75)
            << i << ": " << g << ' ' << p << ' ' << m << ' ' << v;
        ASSERT_LE(off(static_cast<double>(step.first_at(i)), want.first, want.first), 0.51) << i;
        ASSERT_LE(off(static_cast<double>(step.second_at(i)), want.second, want.second), 0.51) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EveryStep,
                         testing::Combine(testing::ValuesIn(all_forms), testing::ValuesIn(gradient_types)));

TEST(FusedStep, ParametersOf16BitsAreTheirMastersRounded) {
  for (const Form form : {Form::bf16, Form::f16, Form::split}) {
    SomeStep step(form, DataType::f32, 5000);
    step.draw(6);
    detail::update(step.arrays(), factors(zero::AdamW{}, 3, 1e-3, 1));
    for (std::int64_t i = 0; i < 5000; ++i) {
      const float master = step.parameter_at(i);
      const float stored = form == Form::f16
                               ? static_cast<float>(std::bit_cast<Half>(step.bits_16_at(i)))
                               : static_cast<float>(std::bit_cast<BFloat16>(step.bits_16_at(i)));
      if (std::isnan(master)) {
        EXPECT_TRUE(std::isnan(stored));
        continue;
      }
      const float near =
          form == Form::f16 ? static_cast<float>(Half(master)) : static_cast<float>(BFloat16(master));
      const bool halfway = form == Form::split && (std::bit_cast<std::uint32_t>(master) & 0xffffU) == 0x8000U;
      if (halfway) continue;  // then it is the one farther from zero
      EXPECT_EQ(stored, near) << master;
    }
  }
}

TEST(FusedStep, WithoutGradientsAndMomentsOnlyDecays) {
  for (const Form form : all_forms) {
    SomeStep step(form, DataType::bf16, 33);
    for (std::int64_t i = 0; i < 33; ++i) step.set(i, 0, 2, 0, 0);
    detail::update(step.arrays(), factors(zero::AdamW{.epsilon = 1e-18, .weight_decay = 0.5}, 1, 0.5, 1));
    for (std::int64_t i = 0; i < 33; ++i) EXPECT_EQ(step.parameter_at(i), 1.5F);
  }
}

TEST(FusedStep, BadValuesAreSeenInTheParameter) {
  const auto after = [](float g, float p, float m, float v) {
    SomeStep step(Form::split, DataType::f32, 1);
    step.set(0, g, p, m, v);
    detail::update(step.arrays(), factors(zero::AdamW{}, 1, 1e-3, 1));
    return step.parameter_at(0);
  };
  for (const float bad : {NAN, INFINITY, -INFINITY, 1e21F})
    EXPECT_TRUE(std::isnan(after(bad, 1, 0, 0))) << bad;
  EXPECT_TRUE(std::isnan(after(0, NAN, 0, 0)));
  EXPECT_TRUE(std::isnan(after(0, 1, NAN, 0)));
  EXPECT_TRUE(std::isnan(after(0, 1, 0, NAN)));
  EXPECT_TRUE(std::isnan(after(0, 1, 0, INFINITY)))
      << "otherwise it would never move again, and nothing would show it";
  EXPECT_NEAR(after(1e20F, 1, 0, 0), 0.999F, 2e-5F) << "a large gradient is not bad";
}

TEST(SplitFloat, HalvesAreTheNumber) {
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const float back = detail::joined(detail::split(value));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(back));
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(back), std::bit_cast<std::uint32_t>(value));
    }
  }
  EXPECT_EQ(detail::split(0x1.fffffep127F).high, 0x7f80) << "as rounding to bf16 does; the master is finite";
  EXPECT_TRUE(std::isnan(detail::joined(detail::split(std::bit_cast<float>(0x7fffffffU)))));
}

TEST(FusedStep, RunsInTheOrderOfItsStream) {
  for (const zero::Optimizer& rule : all_rules()) {
    SomeStep here(Form::split, DataType::bf16, 100);
    here.draw(8);
    SomeStep there = here;
    Stream stream = Stream::queued();
    for (const std::int64_t number : {1, 2}) {
      const auto constants = factors(rule, number, 1e-2, 1);
      detail::on_host::fused_step(here.slice(constants), constants);
      detail::fused_step(there.slice(constants), constants, stream);
    }
    stream.synchronize();
    EXPECT_EQ(here.differs_at(there), -1);
  }
}

TEST(FusedStep, RefusesArraysThatDoNotFit) {
  const auto constants = factors(zero::AdamW{}, 1, 1e-3, 1);
  SomeStep step(Form::bf16, DataType::bf16, 8);
  const detail::StepSlice good = step.slice(constants);
  const auto refused = [&](std::initializer_list<std::string> parts, auto change) {
    detail::StepSlice slice = good;
    change(slice);
    expect_error(ErrorKind::usage, parts, [&] { detail::on_host::fused_step(slice, constants); });
  };
  refused({"8 elements", "second moments are 7 f32"}, [](auto& s) { s.second = s.second.slice(0, 7); });
  refused({"masters are 0"}, [](auto& s) { s.master = {}; });
  refused({"first moments", "cuda:0"},
          [](auto& s) { s.first = View(s.first.data(), 8, DataType::f32, Device::cuda(0)); });
  refused({"gradients of type i32", "f32, bf16 or f16"},
          [](auto& s) { s.gradient = ConstView(s.gradient.data(), 8, DataType::i32); });
  refused({"parameters of type bf16 with no master"}, [](auto& s) { s.kept = detail::Master::none; });
  const auto plain = factors(zero::Sgd{}, 1, 1e-3, 1);
  expect_error(ErrorKind::usage, {"first moments are 8", "empty where the rule keeps none"},
               [&] { detail::on_host::fused_step(good, plain); });
}

}  // namespace
}  // namespace weft::test
