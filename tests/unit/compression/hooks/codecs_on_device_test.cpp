// Codecs over memory and streams of devices, with a fake NCCL, a fake CUDA, and fake kernels that are the slow twin: every bit is the host's.

#include <gtest/gtest.h>

#include <limits>

#include "support/block_coding_twin.hpp"
#include "support/expect_error.hpp"
#include "support/ranks_with_fakes.hpp"
#include "unit/compression/training.hpp"
#include "weft/compression/codec_hook.hpp"

namespace weft::test {
namespace {

// Parameters with gaps behind them, and one of several blocks.
const ParamLayout layout(DataType::f32, {{"a", 1000}, {"bias", 7}, {"b", 4096 + 77}, {"c", 513}});

class CodecsOnDevice : public testing::TestWithParam<const char*> {
 protected:
  void expect_the_same(Training training, const CodecHookOptions& options) {
    const auto make = [&](int) { return codec_hook(codec_named(GetParam()), options); };
    const auto expected = training.run(make);
    training.where = [this](int ranks, const std::function<void(Communicator)>& rank) {
      run_with_fakes(nccl_, ranks, [&](Communicator comm) { rank(std::move(comm)); });
    };
    const int before = kernels_->launches;
    EXPECT_EQ(difference(training.run(make), expected), "");
    EXPECT_GT(kernels_->launches, before) << "nothing was coded on a device";
  }

  WithFakeCuda cuda_;
  block_twin::WithFakeKernels kernels_;
  FakeNcclRanks nccl_;
};
INSTANTIATE_TEST_SUITE_P(Codecs, CodecsOnDevice,
                         testing::Values("fp16", "bf16", "int8", "int8:stochastic", "int4", "fp4:stochastic",
                                         "fp8-e4m3", "fp8-e5m2:stochastic"));

TEST_P(CodecsOnDevice, MeansHaveTheBitsOfTheHost) {
  for (const int ranks : {1, 3}) {
    for (const KeptAs kept : {KeptAs::nothing, KeptAs::f32, KeptAs::sixteen_bits}) {
      for (const Means means : {Means::everywhere, Means::sharded}) {
        SCOPED_TRACE(text(ranks, " ranks, errors kept as ", static_cast<int>(kept),
                          means == Means::sharded ? ", sharded" : ""));
        expect_the_same({.layout = layout,
                         .ranks = ranks,
                         .steps = 3,
                         .options = {.buckets = BucketBytes{6000}, .means = means}},
                        {.residual = kept});
      }
    }
  }
}

// The steps before the code starts, a step that does not count because of one rank, and those after it.
TEST_P(CodecsOnDevice, SoHaveThoseAfterANan) {
  for (const std::uint64_t start : {0U, 2U}) {
    Training training{.layout = layout, .ranks = 2, .steps = 5, .options = {.buckets = BucketBytes{6000}}};
    training.gradient = [](const ParamLayout& of, int rank, int step, int parameter) {
      Floats values = normal(of.count(ParamId{parameter}), rank, step, parameter);
      if (rank == 1 && step == 1 && parameter == 2) values[300] = std::numeric_limits<float>::infinity();
      return values;
    };
    expect_the_same(training, {.start_step = start});
  }
}

TEST(CodecsWithoutKernels, AreRefusedOnDevices) {
  const WithFakeCuda cuda;
  FakeNcclRanks nccl;
  run_with_fakes(nccl, 1, [](const Communicator& comm) {
    expect_error(ErrorKind::usage,
                 {"gradients of f32 on cuda:0 in top-k", "fp16, bf16, fp8, int8, int4 and fp4"},
                 [&] { GradientReducer(comm, layout, {.hook = codec_hook(codec_named("top-k:0.1"))}); });
  });
}

}  // namespace
}  // namespace weft::test
