// PowerSGD over memory and streams of devices, with a fake NCCL, a fake CUDA, and fake kernels that run the
// host's functions: so every bit is the host's.

#include <gtest/gtest.h>

#include <algorithm>

#include "support/fake_low_rank.hpp"
#include "support/ranks_with_fakes.hpp"
#include "unit/compression/training.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

// A matrix of more rows than a device sums at once, one with odd sizes, one of more dimensions, and
// parameters that are not compressed.
const ParamLayout layout(DataType::f32, {{"tall", 300 * 20, nullptr, {300, 20}},
                                         {"bias", 40},
                                         {"odd", 37 * 301, nullptr, {37, 301}},
                                         {"conv", 24 * 8 * 9, nullptr, {24, 8, 9}}});
constexpr int odd = 2;

auto with(PowerSgdOptions options) {
  return [options](int) { return power_sgd(options); };
}

class PowerSgdOnDevice : public testing::TestWithParam<LowRankForm> {
 protected:
  /// The same training, on devices.
  Training on_devices(Training training) {
    training.where = [this](int ranks, const std::function<void(Communicator)>& rank) {
      run_with_fakes(nccl_, ranks, [&](Communicator comm) {
        EXPECT_EQ(comm.device(), Device::cuda(comm.rank()));
        rank(std::move(comm));
      });
    };
    return training;
  }
  void expect_the_same(const Training& training, const PowerSgdOptions& options) {
    const auto expected = training.run(with(options));
    const int before = kernels_->launches;
    EXPECT_EQ(difference(on_devices(training).run(with(options)), expected), "");
    EXPECT_GT(kernels_->launches, before) << "nothing was compressed on a device";
  }

  WithFakeCuda cuda_;
  WithFakeLowRank kernels_;
  FakeNcclRanks nccl_;
};
INSTANTIATE_TEST_SUITE_P(Forms, PowerSgdOnDevice,
                         testing::Values(LowRankForm::two_sided, LowRankForm::alternating));

TEST_P(PowerSgdOnDevice, MeansHaveTheBitsOfTheHost) {
  for (const int ranks : {1, 3}) {
    for (const Means means : {Means::everywhere, Means::sharded}) {
      for (const std::size_t bytes : {6000U, 1U << 20U}) {
        SCOPED_TRACE(
            text(ranks, " ranks, buckets of ", bytes, ", ", means == Means::sharded ? "sharded" : ""));
        expect_the_same({.layout = layout,
                         .ranks = ranks,
                         .steps = 5,
                         .options = {.buckets = BucketBytes{bytes}, .means = means}},
                        {.rank = 2, .start_step = 1, .form = GetParam()});
      }
    }
  }
}

TEST_P(PowerSgdOnDevice, EveryKindOfResidualAndBasesThatAreNewEveryStep) {
  const Training training{
      .layout = layout, .ranks = 2, .steps = 4, .options = {.buckets = BucketBytes{6000}}};
  for (const KeptAs kind : {KeptAs::nothing, KeptAs::sixteen_bits, KeptAs::f32}) {
    for (const bool warm : {false, true}) {
      SCOPED_TRACE(text("residual ", static_cast<int>(kind), ", warm ", warm));
      expect_the_same(training,
                      {.rank = 3, .start_step = 0, .warm_start = warm, .residual = kind, .form = GetParam()});
    }
  }
}

// NaN in compressed and in uncompressed parameters, before compression begins and after.
TEST_P(PowerSgdOnDevice, AStepWithNaNLeavesNoTrace) {
  for (const Means means : {Means::everywhere, Means::sharded}) {
    Training skipping{.layout = layout, .ranks = 2, .steps = 6, .options = {.buckets = BucketBytes{6000}}};
    skipping.options.means = means;
    const auto hook = with({.rank = 2, .start_step = 2, .form = GetParam()});
    const auto without = on_devices(skipping).run(hook);
    for (const auto& [bad_step, bad_parameter] : {std::pair(1, 1), std::pair(3, 1), std::pair(4, +odd)}) {
      Training training = skipping;
      training.steps += 1;
      training.gradient = [&, bad_step = bad_step, bad_parameter = bad_parameter](
                              const ParamLayout& of, int rank, int step, int parameter) {
        Floats values = skipping.gradient(of, rank, step > bad_step ? step - 1 : step, parameter);
        if (step == bad_step && rank == 1 && parameter == bad_parameter) values[values.size() / 2] = NAN;
        return values;
      };
      auto with_bad = on_devices(training).run(hook);
      const Floats hit = training.part(with_bad[static_cast<std::size_t>(bad_step)], bad_parameter);
      EXPECT_TRUE(std::ranges::any_of(hit, [](float value) { return std::isnan(value); }));
      with_bad.erase(with_bad.begin() + bad_step);
      EXPECT_EQ(difference(with_bad, without), "") << "step " << bad_step << ", " << bad_parameter;
    }
  }
}

TEST_P(PowerSgdOnDevice, ADeadLayerComesAliveAgain) {
  Training training{.layout = layout, .ranks = 2, .steps = 6};
  training.gradient = [](const ParamLayout& of, int rank, int step, int parameter) {
    Floats values = normal(of.count(ParamId{parameter}), rank, step, parameter);
    if (parameter == odd && step < 3) std::ranges::fill(values, 0.0F);
    return values;
  };
  expect_the_same(training, {.rank = 2, .start_step = 0, .form = GetParam()});
}

TEST_P(PowerSgdOnDevice, StateIsTheHostsAndTrainingGoesOnFromIt) {
  for (const KeptAs kind : {KeptAs::nothing, KeptAs::sixteen_bits, KeptAs::f32}) {
    const PowerSgdOptions options{.rank = 2, .start_step = 1, .residual = kind, .form = GetParam()};
    const auto states_of = [&](Training training) {
      std::vector<PowerSgdState> states(2);
      training.after = [&](int rank, int step, CommHook& hook, Communicator&) {
        auto& sgd = static_cast<PowerSgd&>(hook);
        if (step < 3) return;
        PowerSgdState state = sgd.state();
        sgd.load_state(state);  // unchanged
        states[static_cast<std::size_t>(rank)] = std::move(state);
      };
      training.run(with(options));
      return states;
    };
    const Training training{
        .layout = layout, .ranks = 2, .steps = 4, .options = {.buckets = BucketBytes{6000}}};
    const auto expected = states_of(training);
    const auto found = states_of(on_devices(training));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(found[rank].steps, 4);
      EXPECT_EQ(found[rank].left_bases, expected[rank].left_bases);
      ASSERT_EQ(found[rank].tensors.size(), expected[rank].tensors.size());
      for (std::size_t i = 0; i < expected[rank].tensors.size(); ++i) {
        EXPECT_EQ(found[rank].tensors[i].basis, expected[rank].tensors[i].basis) << i;
        EXPECT_EQ(found[rank].tensors[i].residual, expected[rank].tensors[i].residual) << i;
        EXPECT_EQ(found[rank].tensors[i].residual.empty(), kind == KeptAs::nothing);
      }
    }
    // Loaded by other hooks on devices, the state makes the rest of the training the host's.
    Training whole = training;
    whole.steps = 7;
    Training rest = on_devices(training);
    rest.after = [&](int rank, int step, CommHook& hook, Communicator&) {
      if (step == 0) static_cast<PowerSgd&>(hook).load_state(expected[static_cast<std::size_t>(rank)]);
    };
    rest.gradient = [&](const ParamLayout& of, int rank, int step, int parameter) {
      return training.gradient(of, rank, step + 3, parameter);
    };
    auto expected_means = whole.run(with(options));
    auto means = rest.run(with(options));
    expected_means.erase(expected_means.begin(), expected_means.begin() + 4);
    means.erase(means.begin());
    EXPECT_EQ(difference(means, expected_means), "");
  }
}

// The device does not run until all ranks have submitted their step: a hook that waits for it would block.
TEST_P(PowerSgdOnDevice, SubmittingAStepWaitsForNothing) {
  std::atomic<int> submitted{0};
  std::atomic<bool> is_late{false};
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    const auto hook = power_sgd({.rank = 2, .start_step = 0, .warm_start = false, .form = GetParam()});
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{6000}, .hook = hook});
    Stream compute(comm.device());
    for (int step = 0; step < 2; ++step) {
      compute.run([&, step, native = native_handle(compute)] {
        FakeCuda::enqueue(native, [&, step] {
          const auto end = std::chrono::steady_clock::now() + 20s;
          while (submitted < 2 * (step + 1) && !is_late) {
            std::this_thread::yield();
            is_late = is_late || std::chrono::steady_clock::now() > end;
          }
        });
      });
      reducer.begin_step();
      for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter)
        reducer.mark_ready(ParamId{parameter}, compute);
      reducer.finish_step(compute);
      ++submitted;
      compute.synchronize(Deadline::in(30s));
    }
  });
  EXPECT_FALSE(is_late);
}

}  // namespace
}  // namespace weft::test
