// After warm-up a step allocates no device memory and no pinned memory. Runs on the fake CUDA.

#include <gtest/gtest.h>

#include <barrier>

#include "support/fake_cuda.hpp"
#include "support/fake_update.hpp"
#include "support/ranks_with_fakes.hpp"
#include "support/zero_training.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::zero {
namespace {

using test::FakeCuda;
using test::ZeroTraining;

/// Allocations between the end of the second step on all ranks and the end of the last step.
int allocations_of(ZeroTraining job) {
  const test::WithFakeCuda fake;
  const test::WithFakeUpdate update;
  test::FakeNcclRanks nccl;
  job.launch = [](const Stream& stream, const std::function<void()>& work) {
    Stream(stream).run([native = native_handle(stream), work] { FakeCuda::enqueue(native, work); });
  };
  std::vector<int> counts;
  std::barrier meeting(job.ranks, [&]() noexcept { counts.push_back(fake->allocations); });
  job.after_step = [&](int step) {
    if (step == 1 || step + 1 == job.steps) meeting.arrive_and_wait();
  };
  test::run_with_fakes(nccl, job.ranks, [&](const Communicator& comm) { job.on(comm); });
  return counts.back() - counts.front();
}

TEST(AllocationsOnDevice, AWarmStepTakesNothing) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const double share : {0.0, 0.5, 1.0}) {
      for (const bool clips : {false, true}) {
        ZeroTraining job{.steps = 8};
        if (clips) job.stepping.clip_norm = 5;
        job.stepping.offload = {.share = share, .tile_bytes = 1000};
        job.sharding.stage = stage;
        job.sharding.bucket_bytes = 4000;
        EXPECT_EQ(allocations_of(job), 0) << "stage " << stage << ", share " << share << ", clips " << clips;
      }
    }
  }
}

}  // namespace
}  // namespace weft::zero
