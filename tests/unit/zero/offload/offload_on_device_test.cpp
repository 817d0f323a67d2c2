// Offload from a fake device whose streams are threads, so that a missing wait shows.

#include <gtest/gtest.h>

#include <algorithm>

#include "support/fake_cuda.hpp"
#include "support/fake_update.hpp"
#include "support/ranks_with_fakes.hpp"
#include "support/temporary_folder.hpp"
#include "support/uring.hpp"
#include "support/zero_training.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::zero {
namespace {

using test::FakeCuda;
using test::ZeroTraining;
using Result = ZeroTraining::Result;

Result on_fakes(ZeroTraining job) {
  job.launch = [](const Stream& stream, const std::function<void()>& work) {
    Stream(stream).run([native = native_handle(stream), work] { FakeCuda::enqueue(native, work); });
  };
  const test::WithFakeCuda fake;
  const test::WithFakeUpdate update;
  test::FakeNcclRanks nccl;
  Result result;
  std::mutex mutex;
  test::run_with_fakes(nccl, job.ranks, [&](const Communicator& comm) {
    const Result mine = job.on(comm);
    const std::lock_guard lock(mutex);
    result = mine;
  });
  return result;
}

TEST(OffloadOnDevice, HasTheBitsOfTheHost) {
  for (const int ranks : {1, 2}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const bool clips : {false, true}) {
        ZeroTraining job{.ranks = ranks, .steps = 4, .dtype = clips ? DataType::bf16 : DataType::f32};
        if (clips) job.stepping.clip_norm = 5;
        job.sharding.stage = stage;
        job.sharding.bucket_bytes = 4000;
        const Result reference = job.run();
        job.says_rate = !clips;
        for (const bool all : {false, true}) {
          job.stepping.offload = {.share = all ? 1 : 0.4, .tile_bytes = 1000};
          job.sharding.offload_gradients = all && stage >= 2;
          job.sharding.offload_parameters = all && stage == 3;
          EXPECT_EQ(on_fakes(job) == reference, true) << ranks << " ranks, stage " << stage << ", " << all;
        }
      }
    }
  }
}

TEST(OffloadOnDevice, HasThemWithAFileToo) {
  if (const auto why = test::why_no_uring()) GTEST_SKIP() << *why;
  const test::TemporaryFolder folder;
  for (const int stage : {0, 2, 3}) {
    ZeroTraining job{.steps = 4, .dtype = DataType::bf16, .says_rate = true};
    job.sharding.stage = stage;
    job.sharding.bucket_bytes = 4000;
    const Result reference = job.run();
    job.stepping.offload = {.share = 1, .tile_bytes = 1000, .directory = folder.path(), .file_share = 0.6};
    EXPECT_EQ(on_fakes(job) == reference, true) << "stage " << stage;
    job.offloads = {1};
    job.file_shares = {1, 0, 0.3};
    EXPECT_EQ(on_fakes(job) == reference, true) << "stage " << stage << ", moving";
  }
}

/// A trainer that never gathers: only gradient() keeps it from writing gradients too early.
std::vector<float> without_gathers(const Communicator& comm, int stage, Offload offload) {
  const ParamLayout layout(DataType::f32, {{"first", 4000}, {"second", 3000}});
  ShardedParams params(comm, layout, {.stage = stage});
  ShardedOptimizer adam(params, AdamW{.learning_rate = 1e-2}, {.offload = offload});
  Stream compute(comm.device());
  for (int step = 0; step < 6; ++step) {
    adam.begin_step(1e-2);
    params.begin_step();
    for (const ParamId id : {ParamId{1}, ParamId{0}}) {
      const View gradient = params.gradient(id, compute);
      const auto work = [gradient, step] {
        for (std::int64_t i = 0; i < gradient.count(); ++i)
          ZeroTraining::put(gradient, i, static_cast<float>((i * 7 + step * 13) % 11) - 5);
      };
      compute.run([&compute, work] {
        if (compute.device().is_host()) return work();
        FakeCuda::enqueue(native_handle(compute), work);
      });
      params.mark_ready(id, compute);
    }
    adam.step(compute);
  }
  compute.synchronize();
  const Buffer values = params.whole(ParamId{0});
  const auto elements = values.as<float>();
  return {elements.begin(), elements.end()};
}

TEST(OffloadOnDevice, GradientsWaitUntilTheLastOnesCameDown) {
  for (const int stage : {0, 1, 2, 3}) {
    std::vector<float> reference;
    run_as_threads(1, [&](Communicator comm) { reference = without_gathers(comm, stage, {}); });
    const test::WithFakeCuda fake;
    test::FakeNcclRanks nccl;
    std::vector<float> offloaded;
    test::run_with_fakes(nccl, 1, [&](const Communicator& comm) {
      offloaded = without_gathers(comm, stage, {.share = 1, .tile_bytes = 128});
    });
    EXPECT_EQ(offloaded == reference, true) << "stage " << stage;
  }
}

// The gradient of a parameter is often ready before its layer has read it for the last time.
TEST(OffloadOnDevice, BackwardReadsOldParametersToItsEnd) {
  const test::WithFakeCuda fake;
  test::FakeNcclRanks nccl;
  test::run_with_fakes(nccl, 1, [](const Communicator& comm) {
    const ParamLayout layout(DataType::f32, {{"only", 4096}});
    ShardedParams params(comm, layout, {.stage = 1});
    ShardedOptimizer sgd(params, Sgd{.learning_rate = 1}, {.offload = {.share = 1, .tile_bytes = 4096}});
    Stream compute(comm.device());
    for (int step = 0; step < 3; ++step) {
      sgd.begin_step(1);
      params.begin_step();
      std::vector<float> read;
      {
        const Gathered full = params.gather(0, compute);
        const View values = full[ParamId{0}];
        const View gradient = params.gradient(ParamId{0}, compute);
        const auto run = [&](const std::function<void()>& work) {
          compute.run([&, work] { FakeCuda::enqueue(native_handle(compute), work); });
        };
        run([=] { std::fill_n(static_cast<float*>(gradient.data()), gradient.count(), -1.0F); });
        params.mark_ready(ParamId{0}, compute);
        run([&read, values] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          const auto* first = static_cast<const float*>(values.data());
          read.assign(first, first + values.count());
        });
      }
      sgd.step(compute);
      compute.synchronize();
      EXPECT_EQ(read, std::vector<float>(4096, static_cast<float>(step)));
    }
  });
}

}  // namespace
}  // namespace weft::zero
