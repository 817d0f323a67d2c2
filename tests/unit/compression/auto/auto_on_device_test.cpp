// auto over memory and streams of devices, with a fake NCCL, a fake CUDA, and fake kernels that run the host's functions: what it chooses
// trains bit by bit as on the host.

#include <gtest/gtest.h>

#include "compression/auto/choosing_hook.hpp"
#include "support/block_coding_twin.hpp"
#include "support/fake_low_rank.hpp"
#include "support/ranks_with_fakes.hpp"
#include "unit/compression/training.hpp"

namespace weft::test {
namespace {

class AutoOnDevice : public testing::TestWithParam<const char*> {
 protected:
  using Make = std::function<std::shared_ptr<CommHook>(int rank)>;

  std::vector<Floats> run_on_devices(Training training, const Make& make) {
    training.where = [this](int ranks, const std::function<void(Communicator)>& rank) {
      run_with_fakes(nccl_, ranks, [&](Communicator comm) { rank(std::move(comm)); });
    };
    return training.run(make);
  }

  const ParamLayout layout_{
      DataType::f32,
      {{"tall", 96 * 40, nullptr, {96, 40}}, {"bias", 40}, {"odd", 37 * 301, nullptr, {37, 301}}}};
  const Make forced_ = [](int) {
    return detail::choosing_hook({.rank = 2, .start_step = 9}, [](int, StepProfile& profile) {
      // A wire on which the candidate wins, whatever was measured.
      const std::string winner = GetParam();
      profile.step_seconds = 1e-3;
      profile.coding = {1e-12, 1e-12, 1e-12, 1e-12};
      profile.link = {0, winner == "none" ? 1e15 : 1e6};
      if (winner == "bf16") profile.coding.matrix = profile.coding.factor = 1e-3;
    });
  };
  WithFakeCuda cuda_;
  block_twin::WithFakeKernels codes_;
  WithFakeLowRank low_rank_;
  FakeNcclRanks nccl_;
};
INSTANTIATE_TEST_SUITE_P(Candidates, AutoOnDevice, testing::Values("none", "bf16", "powersgd:2"));

TEST_P(AutoOnDevice, TrainsAsOnTheHost) {
  for (const int ranks : {1, 3}) {
    for (const Means means : {Means::everywhere, Means::sharded}) {
      SCOPED_TRACE(text(ranks, " ranks", means == Means::sharded ? ", sharded" : ""));
      Training training{.layout = layout_,
                        .ranks = ranks,
                        .steps = 12,
                        .options = {.buckets = BucketBytes{6000}, .means = means}};
      std::string chosen;
      const auto expected = training.run(forced_);
      training.after = [&](int rank, int step, CommHook& hook, Communicator&) {
        const auto& choice = static_cast<AutoHook&>(hook).choice();
        EXPECT_EQ(choice.has_value(), step >= AutoHook::steps_before) << step;
        if (rank == 0 && choice) chosen = choice->chosen;
      };
      EXPECT_EQ(difference(run_on_devices(training, forced_), expected), "");
      EXPECT_EQ(chosen, GetParam());
    }
  }
}

// In a step that is observed, one in which ranks agree, one in which they compare.
TEST_P(AutoOnDevice, AStepWithNaNDelaysTheChoiceOnAllRanks) {
  for (const int bad_step : {3, 5, 6}) {
    Training training{.layout = layout_, .ranks = 2, .steps = 11, .options = {.buckets = BucketBytes{6000}}};
    training.gradient = [&](const ParamLayout& of, int rank, int step, int parameter) {
      Floats values = normal(of.count(ParamId{parameter}), rank, step, parameter);
      if (step == bad_step && rank == 1 && parameter == 2) values[100] = NAN;
      return values;
    };
    std::vector<int> chosen_at(2, -1);
    training.after = [&](int rank, int step, CommHook& hook, Communicator&) {
      int& at = chosen_at[static_cast<std::size_t>(rank)];
      if (at < 0 && static_cast<AutoHook&>(hook).choice()) at = step;
    };
    run_on_devices(training, forced_);
    const int late = bad_step < 5 ? 2 : 1;  // the times between its neighbours and it say nothing
    EXPECT_EQ(chosen_at, std::vector<int>(2, AutoHook::steps_before + late)) << "step " << bad_step;
  }
}

// Codecs are measured by their kernels, the link between devices, and steps by when the device passed places.
TEST(AutoOnDevices, RanksMeasureThereAndChooseAlike) {
  const WithFakeCuda cuda;
  const block_twin::WithFakeKernels codes;
  const WithFakeLowRank low_rank;
  FakeNcclRanks nccl;
  Training training{.layout = {DataType::f32, {{"matrix", 96 * 40, nullptr, {96, 40}}, {"bias", 40}}},
                    .ranks = 3,
                    .steps = 9};
  training.where = [&](int ranks, const std::function<void(Communicator)>& rank) {
    run_with_fakes(nccl, ranks, rank);
  };
  std::vector<std::pair<CodecChoice, StepProfile>> all(3);
  training.after = [&](int rank, int step, CommHook& hook, Communicator& comm) {
    EXPECT_FALSE(comm.device().is_host());
    const auto& chosen = static_cast<AutoHook&>(hook);
    if (step == 8) all[static_cast<std::size_t>(rank)] = {chosen.choice().value(), chosen.profile().value()};
  };
  training.run([](int) { return auto_hook({.rank = 2}); });
  EXPECT_GT(codes->launches, 0);
  EXPECT_GT(low_rank->launches, 0);
  const auto& [choice, profile] = all[0];
  EXPECT_TRUE(profile.beside);
  EXPECT_GT(profile.step_seconds, profile.ready_seconds.back());
  EXPECT_GT(profile.link.bytes_per_second, 0);
  for (const double seconds :
       {profile.coding.bf16, profile.coding.matrix, profile.coding.factor, profile.coding.copying})
    EXPECT_GT(seconds, 0);
  for (const auto& [other, seen] : all) EXPECT_EQ(text(other), text(choice)) << "with the same predictions";
}

}  // namespace
}  // namespace weft::test
