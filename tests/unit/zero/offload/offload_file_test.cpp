// State in a file gives the same bits as state on the device. The host is the device here.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "support/expect_error.hpp"
#include "support/forbidden_call.hpp"
#include "support/temporary_folder.hpp"
#include "support/under_tsan.hpp"
#include "support/uring.hpp"
#include "support/zero_training.hpp"

namespace weft::zero {
namespace {

using test::few_under_tsan;
using test::ZeroTraining;
using Result = ZeroTraining::Result;

class OffloadToFile : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = test::why_no_uring()) GTEST_SKIP() << *why;
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "something stayed behind";
  }

  Offload offload(std::optional<double> share, std::size_t tile_bytes, double file_share = 1) const {
    return {.share = share, .tile_bytes = tile_bytes, .directory = folder_.path(), .file_share = file_share};
  }
  void expect_the_same(ZeroTraining job, std::initializer_list<int> stages = {0, 1, 2, 3}) const {
    for (const int stage : stages) {
      job.sharding.stage = stage;
      const Result reference = job.run();
      EXPECT_EQ(reference.file_bytes, 0);
      int variant = 0;
      for (const Offload& one : few_under_tsan<Offload>(
               {offload(1, 1000), offload(0.6, 300, 0.5), offload(std::nullopt, 2000, 0.7),
                offload(1, 1 << 22), offload(0.3, 5000)},
               3)) {
        job.stepping.offload = one;
        job.queued = variant % 2 == 0;
        job.says_rate = variant % 3 == 0;
        const Result result = job.run();
        EXPECT_EQ(result == reference, true) << "stage " << stage << ", variant " << variant;
        if (one.share) {
          EXPECT_GT(result.file_bytes, 0);
        }
        ++variant;
      }
      job.stepping.offload = {};
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(OffloadToFile, EveryStageHasTheBitsOfTheDevice) {
  for (const int ranks : few_under_tsan<int>({3, 1}, 1)) expect_the_same({.ranks = ranks, .steps = 5});
}

TEST_F(OffloadToFile, SoHaveSmallBuckets) {
  ZeroTraining job{.ranks = 2};
  job.sharding.bucket_bytes = 1000;
  expect_the_same(job);
}

TEST_F(OffloadToFile, SoHaveOtherOptimizers) {
  expect_the_same({.optimizer = Sgd{.learning_rate = 0.05, .momentum = 0.9}}, {2});
}

TEST_F(OffloadToFile, SoHaveSixteenBitsWithEitherMaster) {
  for (const DataType dtype : {DataType::bf16, DataType::f16}) expect_the_same({.dtype = dtype}, {0, 3});
  expect_the_same({.dtype = DataType::bf16, .stepping = {.master = Master::split}}, {0, 2});
}

TEST_F(OffloadToFile, SoHaveSixtyFourBits) {
  expect_the_same({.steps = 3, .dtype = DataType::f64}, {2});
}

TEST_F(OffloadToFile, SoHaveClippingAndSkippedSteps) {
  expect_the_same(
      {.steps = 12,
       .dtype = DataType::f16,
       .stepping = {.clip_norm = 20.0,
                    .loss_scale = LossScalerOptions{.initial = 64, .growth_interval = 4, .hysteresis = 1}},
       .overflow_once_in = 5},
      {1, 3});
}

TEST_F(OffloadToFile, SoHasStateThatMovesBetweenDeviceMemoryAndFile) {
  for (const Master master : {Master::f32, Master::split}) {
    for (const int stage : {0, 1, 3}) {
      ZeroTraining job{.steps = 10, .dtype = DataType::bf16, .stepping = {.master = master}};
      job.sharding.stage = stage;
      job.sharding.bucket_bytes = 1000;
      const Result reference = job.run();
      job.stepping.offload = offload(0.5, 500, 0.5);
      job.offloads = {0.5, 1, 1, 0.3, 0, 0.8, 1, 0.4, 1};
      job.file_shares = {1, 0, 1, 0.4, 1, 1, 0.5, 0.9, 0};
      for (const bool says_rate : {false, true}) {
        job.says_rate = says_rate;
        EXPECT_EQ(job.run() == reference, true) << "stage " << stage;
      }
    }
  }
}

TEST_F(OffloadToFile, GradientsAndParametersOnTheHostGoWithIt) {
  for (const int stage : {2, 3}) {
    ZeroTraining job{.ranks = 2, .steps = 5};
    job.sharding = {.stage = stage, .offload_parameters = stage == 3, .offload_gradients = true};
    job.sharding.bucket_bytes = 4000;
    const Result reference = job.run();
    job.stepping.offload = offload(0.7, 700, 0.6);
    EXPECT_EQ(job.run() == reference, true);
  }
}

/// One rank of a training in stage 2.
void with(const Offload& offload,
          const std::function<void(ShardedOptimizer&, const std::function<void()>&)>& body,
          const Optimizer& rule = AdamW{.learning_rate = 1e-2}) {
  run_as_threads(1, [&](Communicator comm) {
    ShardedParams params(comm, ZeroTraining::layout(DataType::f32),
                         {.stage = 2, .units = ZeroTraining::units()});
    ShardedOptimizer adam(params, rule, {.offload = offload});
    const Stream compute;
    body(adam, [&] {
      params.begin_step();
      for (int i = 11; i >= 0; --i) {
        (void)params.gradient(ParamId{i}, compute);
        params.mark_ready(ParamId{i}, compute);
      }
      adam.step(compute);
      params.gather_all(compute);
      Stream(compute).synchronize();
    });
  });
}

TEST_F(OffloadToFile, TellsWhatIsWhere) {
  std::int64_t all = 0;
  with({}, [&](ShardedOptimizer& adam, auto) { all = adam.state_bytes(); });
  std::int64_t whole_file = 0;
  with(offload(1, 4096), [&](ShardedOptimizer& adam, auto) {
    EXPECT_EQ(adam.state_bytes(), 0);
    whole_file = adam.file_bytes();
    EXPECT_GE(whole_file, all);
    EXPECT_LE(whole_file, all + 16 * 4096) << "frames are whole blocks";
    EXPECT_EQ(adam.host_bytes(), all / 2 + 2 * 4096 + 4 * 8192 + 4096)
        << "parameters, tiles, and four frames";
    adam.offload(1, 0);
    EXPECT_EQ(adam.file_bytes(), 0);
    EXPECT_EQ(adam.host_bytes(), all / 2 * 3 + 2 * 4096);
    adam.offload(0.5, 1);
    EXPECT_NEAR(static_cast<double>(adam.state_bytes()), 0.5 * static_cast<double>(all), 4 * 256);
    EXPECT_NEAR(static_cast<double>(adam.file_bytes()), 0.5 * static_cast<double>(all), 16 * 4096);
    adam.offload(0);
    EXPECT_EQ(adam.state_bytes(), all);
    EXPECT_EQ(adam.host_bytes() + adam.file_bytes(), 0);
  });
}

TEST_F(OffloadToFile, NeedsNoFileForAnOptimizerWithoutState) {
  with(
      offload(1, 4096),
      [](ShardedOptimizer& sgd, const auto& step) {
        EXPECT_EQ(sgd.file_bytes(), 0);
        step();
      },
      Sgd{.learning_rate = 0.1});
}

TEST_F(OffloadToFile, RefusesSharesThatAreNoneAndFoldersThatAreNone) {
  const auto nothing = [](ShardedOptimizer&, auto) {};
  test::expect_error(ErrorKind::usage, {"offload.file_share is 1.5", "0 (none) to 1"},
                     [&] { with(offload(1, 4096, 1.5), nothing); });
  test::expect_error(ErrorKind::system,
                     {"rank 0: offload: cannot make a file in /no/such/folder: No such file"},
                     [&] { with({.share = 1, .directory = "/no/such/folder"}, nothing); });
  with({.share = 1}, [](ShardedOptimizer& adam, auto) {
    test::expect_error(ErrorKind::usage, {"a file_share of 0.5 and no folder", "offload.directory"},
                       [&] { adam.offload(1, 0.5); });
  });
}

// A build without io_uring refuses a directory, with a message that says why.
TEST(OffloadToFileElsewhere, IsRefusedWhereIoUringIsForbidden) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child has threads
  const test::TemporaryFolder folder;
  const auto try_it = [&] {
    test::forbid(SYS_io_uring_setup, EPERM);
    try {
      with({.share = 1, .directory = folder.path()}, [](ShardedOptimizer&, auto) {});
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::exit(0);
  };
  EXPECT_EXIT(try_it(), testing::ExitedWithCode(0), "rank 0: offload: .*io_uring.*in memory");
}

/// The descriptor of the only file that this process has open in a folder.
int descriptor_in(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone).string().starts_with(folder + "/"))
      return std::stoi(entry.path().filename());
  }
  throw Error(ErrorKind::internal, "no file in " + folder);
}

TEST_F(OffloadToFile, SaysWhichReadFailedOfWhichRankAndStep) {
  test::expect_error(ErrorKind::system,
                     {"rank 0: step #2: cannot read ", "bytes at ", folder_.path() + "/weft-",
                      "the file ends there", "parameters that were saved"},
                     [&] {
                       with(offload(1, 4096), [&](ShardedOptimizer&, const auto& step) {
                         step();
                         ASSERT_EQ(ftruncate(descriptor_in(folder_.path()), 16384), 0);
                         step();
                       });
                     });
}

TEST_F(OffloadToFile, SaysWhichWriteFailedOfWhichRankAndStep) {
  test::expect_error(
      ErrorKind::system,
      {"rank 0: step #2: cannot write ", "bytes at ", folder_.path() + "/weft-", "No space left on device"},
      [&] {
        with(offload(1, 4096), [&](ShardedOptimizer&, const auto& step) {
          step();
          const int full = open("/dev/full", O_RDWR | O_CLOEXEC);
          ASSERT_GE(dup2(full, descriptor_in(folder_.path())), 0);
          close(full);
          step();
        });
      });
}

}  // namespace
}  // namespace weft::zero
