#include "weft/compression/auto_hook.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "compression/auto/choosing_hook.hpp"
#include "compression/auto/measured_speed.hpp"
#include "compression/auto/step_measurements.hpp"
#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"
#include "unit/compression/training.hpp"
#include "weft/compression/codec_hook.hpp"
#include "weft/compression/power_sgd.hpp"

namespace weft {
namespace {

using test::difference;
using test::Training;

const ParamLayout layout(DataType::f32, {{"tall", 96 * 40, nullptr, {96, 40}},
                                         {"bias", 40},
                                         {"odd", 37 * 301, nullptr, {37, 301}},
                                         {"conv", 24 * 8 * 9, nullptr, {24, 8, 9}}});
constexpr int odd = 2;
constexpr AutoOptions options{.rank = 2, .start_step = 9};
constexpr int chosen_at = AutoHook::steps_before;

/// A wire on which a candidate wins, whatever was measured.
void force(const std::string& winner, StepProfile& profile) {
  profile.step_seconds = 1e-3;
  profile.beside = false;
  profile.slowdown = 1;
  profile.coding = {1e-12, 1e-12, 1e-12, 1e-12};
  profile.link = {0, winner == "none" ? 1e15 : 1e6};
  if (winner == "bf16") profile.coding.matrix = profile.coding.factor = 1e-3;
}

auto forced(const std::string& winner) {
  return [winner](int) {
    return detail::choosing_hook(options, [winner](int, StepProfile& profile) { force(winner, profile); });
  };
}

std::shared_ptr<CommHook> begun_at(const std::string& winner, std::int64_t step) {
  if (winner == "none") return all_reduce_hook();
  if (winner == "bf16")
    return codec_hook(bf16_codec(),
                      {.residual = KeptAs::nothing, .start_step = static_cast<std::uint64_t>(step)});
  return power_sgd({.rank = options.rank, .start_step = std::max(step, options.start_step)});
}

class EveryWinner : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Candidates, EveryWinner, testing::Values("none", "bf16", "powersgd:2"));

TEST_P(EveryWinner, TrainsAsTheHookThatWasChosenBegunThen) {
  for (const int ranks : test::few_under_tsan<int>({3, 1}, 1)) {
    for (const bool queued : {false, true}) {
      for (const Means means : {Means::everywhere, Means::sharded}) {
        for (const BucketChoice& buckets : {BucketChoice(BucketBytes{6000}), BucketChoice()}) {
          Training training{.layout = layout, .ranks = ranks, .steps = 16, .options = {.buckets = buckets}};
          training.options.means = means;
          training.queued = queued;
          const auto expected = training.run([](int) { return begun_at(GetParam(), chosen_at); });
          training.after = [&](int, int step, CommHook& hook, Communicator&) {
            const auto& choice = static_cast<AutoHook&>(hook).choice();
            EXPECT_EQ(choice ? choice->chosen : "", step >= chosen_at ? GetParam() : "") << step;
            const bool is_late = std::string(GetParam()) == "powersgd:2";
            EXPECT_EQ(hook.settled(), step >= (is_late ? options.start_step : chosen_at)) << step;
          };
          EXPECT_EQ(difference(training.run(forced(GetParam())), expected), "")
              << ranks << " ranks, queued " << queued << ", sharded " << (means == Means::sharded);
        }
      }
    }
  }
}

// In steps of every kind: not warm, counted, while ranks agree, while they compare.
TEST_P(EveryWinner, AStepWithNaNWhileItObservesLeavesNoTrace) {
  for (const Means means : {Means::everywhere, Means::sharded}) {
    Training skipping{.layout = layout, .ranks = 3, .steps = 16, .options = {.buckets = BucketBytes{6000}}};
    skipping.options.means = means;
    // Steps before the choice are exact in both runs, and shifted by one: compare from where bf16 runs in
    // both.
    const auto late = [](std::vector<test::Floats> all) {
      all.erase(all.begin(), all.begin() + chosen_at + 2);
      return all;
    };
    const auto without = late(skipping.run(forced(GetParam())));
    for (const int bad_step : test::few_under_tsan<int>({0, 4, 6, 2, 5}, 3)) {
      Training training = skipping;
      training.steps += 1;
      training.gradient = [&](const ParamLayout& of, int rank, int step, int parameter) {
        auto values = skipping.gradient(of, rank, step > bad_step ? step - 1 : step, parameter);
        if (step == bad_step && rank == 1 && parameter == odd) values[values.size() / 2] = NAN;
        return values;
      };
      std::vector<int> chosen(3, -1);
      training.after = [&](int rank, int step, CommHook& hook, Communicator&) {
        int& at = chosen[static_cast<std::size_t>(rank)];
        if (at < 0 && static_cast<AutoHook&>(hook).choice()) at = step;
      };
      auto with_bad = training.run(forced(GetParam()));
      with_bad.erase(with_bad.begin() + bad_step);
      EXPECT_EQ(difference(late(with_bad), without), "") << "step " << bad_step;
      // The times between its neighbours and it do not say how long a step takes.
      const int expected = chosen_at + (bad_step > 0 && bad_step < 5 ? 2 : 1);
      EXPECT_EQ(chosen, std::vector<int>(3, expected)) << "step " << bad_step;
    }
  }
}

TEST(AutoHook, AllRanksChooseAlikeFromWhatTheyMeasured) {
  for (const bool queued : {false, true}) {
    Training training{.layout = layout, .ranks = 4, .steps = 9};
    training.queued = queued;
    std::vector<std::pair<CodecChoice, StepProfile>> all(4);
    training.after = [&](int rank, int step, CommHook& hook, Communicator&) {
      auto& of_auto = static_cast<AutoHook&>(hook);
      if (step == 8)
        all[static_cast<std::size_t>(rank)] = {of_auto.choice().value(), of_auto.profile().value()};
    };
    training.run([](int) { return auto_hook({.rank = 2}); });
    const auto& [choice, profile] = all[0];
    EXPECT_EQ(profile.beside, queued);
    EXPECT_GT(profile.step_seconds, profile.ready_seconds.back());
    EXPECT_GT(profile.link.bytes_per_second, 0);
    for (const double seconds : {profile.coding.bf16, profile.coding.matrix, profile.coding.factor})
      EXPECT_GT(seconds, 0);
    for (const auto& [other, seen] : all) {
      EXPECT_EQ(other.hash(), choice.hash());
      EXPECT_EQ(text(other), text(choice)) << "with the same predictions";
      EXPECT_EQ(seen.ready_seconds, profile.ready_seconds);
    }
  }
}

TEST(AutoHook, RanksThatChooseApartAreToldSo) {
  const Training training{.layout = layout, .ranks = 3, .steps = 10};
  test::expect_error(ErrorKind::mismatch, {"ranks 0 and 2", "from the same figures", "hook_named"}, [&] {
    training.run([](int) {
      return detail::choosing_hook(
          options, [](int rank, StepProfile& profile) { force(rank == 2 ? "bf16" : "none", profile); });
    });
  });
}

TEST(AutoHook, RefusesWhatMakesNoSense) {
  using test::expect_error;
  expect_error(ErrorKind::usage, {"rank 0"}, [] { auto_hook({.rank = 0}); });
  expect_error(ErrorKind::usage, {"least gain of -0.1"}, [] { auto_hook({.least_gain = -0.1}); });
  expect_error(ErrorKind::usage, {"step -1"}, [] { auto_hook({.start_step = -1}); });
  run_as_threads(1, [](Communicator comm) {
    expect_error(ErrorKind::usage, {"auto of gradients of f16", "cast_hook"}, [&] {
      GradientReducer(comm, ParamLayout(DataType::f16, {{"a", 10000, nullptr, {100, 100}}}),
                      {.hook = auto_hook()});
    });
    const auto hook = auto_hook();
    const GradientReducer reducer(comm, layout, {.hook = hook});
    expect_error(ErrorKind::usage, {"two reducers"}, [&] { GradientReducer(comm, layout, {.hook = hook}); });
    EXPECT_FALSE(hook->choice());
  });
}

TEST(AutoHook, MeasuresNothingOfPowerSgdWhereThereIsNoMatrix) {
  run_as_threads(1, [](const Communicator& comm) {
    const CodingSpeed speed = detail::measure_coding(ParamLayout(DataType::f32, {{"bias", 1000}}), 2, comm);
    EXPECT_EQ(speed.matrix, 0);
    EXPECT_GT(speed.bf16, 0);
    EXPECT_GT(speed.copying, 0);
  });
}

TEST(BucketTimes, SpansNoStepThatDoesNotCount) {
  detail::BucketTimes times(2);
  const Stream compute;
  const Stream wire;
  const auto step = [&](bool counts) {
    times.begin_step();
    for (const std::size_t bucket : {0U, 1U}) {
      times.ready(bucket, compute, wire);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      times.arrived(bucket, wire);
    }
    times.end_step(counts, Deadline::in(std::chrono::seconds(30)));
  };
  for (int i = 0; i < 4; ++i) step(true);
  EXPECT_FALSE(times.enough()) << "three spans between four";
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  step(false);
  step(true);
  EXPECT_FALSE(times.enough()) << "the one before did not count";
  step(true);
  EXPECT_TRUE(times.enough());
  EXPECT_EQ(times.ready_seconds().front(), 0);
  EXPECT_GE(times.ready_seconds().back(), 1e-3);
  EXPECT_GE(times.took_seconds().back(), 1e-3);
  EXPECT_GE(times.step_seconds(), 2e-3);
}

}  // namespace
}  // namespace weft
