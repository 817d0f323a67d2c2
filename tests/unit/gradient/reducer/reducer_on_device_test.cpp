// The reducer over memory and streams of a device, with a fake NCCL and a fake CUDA.

#include <gtest/gtest.h>

#include "support/ranks_with_fakes.hpp"
#include "weft/core/copy.hpp"
#include "weft/gradient/gradient_reducer.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

const ParamLayout layout(DataType::f32, {{"embedding", 1000}, {"weight", 333}, {"bias", 7}, {"head", 64}});

float value(int step, int rank, std::size_t i) {
  return static_cast<float>(step * 10 + rank) + static_cast<float>(i) * 0.5F;
}

/// Writes a gradient as a kernel of backward does: on the device, in the stream's order.
void produce(GradientReducer& reducer, ParamId id, const Stream& stream, int step, int rank) {
  const View out = reducer.gradient(id);
  const bool adds = reducer.accumulating();
  Stream(stream).run([=, native = native_handle(stream)] {
    FakeCuda::enqueue(native, [=] {
      auto* elements = static_cast<float*>(out.data());
      for (std::int64_t i = 0; i < out.count(); ++i) {
        const float one = value(step, rank, static_cast<std::size_t>(i));
        elements[i] = adds ? elements[i] + one : one;
      }
    });
  });
  reducer.mark_ready(id, stream);
}

std::vector<float> on_host(View view, const Stream& stream) {
  std::vector<float> result(static_cast<std::size_t>(view.count()));
  copy(View(std::span(result)), view, stream);
  Stream(stream).synchronize(Deadline::in(30s));
  return result;
}

void expect_means(GradientReducer& reducer, const Stream& stream, int step, int ranks, int parts) {
  for (int parameter = 0; parameter < layout.parameters(); ++parameter) {
    const auto gradient = on_host(reducer.gradient(ParamId{parameter}), stream);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        for (int part = 0; part < parts; ++part) sum += value(step + part, rank, i);
      }
      ASSERT_FLOAT_EQ(gradient[i], sum / static_cast<float>(ranks * parts)) << "parameter " << parameter;
    }
  }
}

class ReducerOnDevice : public testing::Test {
 protected:
  WithFakeCuda cuda_;
  FakeNcclRanks nccl_;
};

TEST_F(ReducerOnDevice, TheStreamSeesTheMeansAndTheHostWaitsForNothing) {
  for (const int ranks : {1, 2, 3}) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{2000}, std::size_t{1} << 20}) {
      SCOPED_TRACE(text(ranks, " ranks, ", bucket_bytes, " bytes"));
      run_with_fakes(nccl_, ranks, [&](Communicator comm) {
        Stream compute(comm.device());
        GradientReducer reducer(comm, layout, {.buckets = BucketBytes{bucket_bytes}});
        EXPECT_EQ(reducer.gradients().device(), comm.device());
        for (int step = 0; step < 4; ++step) {
          reducer.begin_step();
          for (int i = layout.parameters() - 1; i >= 0; --i)
            produce(reducer, ParamId{i}, compute, step, comm.rank());
          reducer.finish_step(compute);
          expect_means(reducer, compute, step, ranks, 1);
        }
      });
    }
  }
}

TEST_F(ReducerOnDevice, SeveralProducersMicroStepsAndAnOptimizerBucketByBucket) {
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    Stream first(comm.device());
    Stream second(comm.device());
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{2000}});
    Buffer parameters = Buffer::on(comm.device(), DataType::f32, layout.size());
    constexpr int parts = 2;
    for (int part = 0; part < parts; ++part) {
      reducer.begin_step(part + 1 < parts ? Exchange::no_sync : Exchange::now);
      for (int i = layout.parameters() - 1; i >= 0; --i)
        produce(reducer, ParamId{i}, i % 2 == 0 ? first : second, part, comm.rank());
      std::int64_t consumed = 0;
      const auto consume = [&](const Bucket& bucket) {
        consumed += bucket.count();
        copy(parameters.view().slice(bucket.begin, bucket.count()),
             reducer.gradients().slice(bucket.begin, bucket.count()), first);
      };
      reducer.finish_step(first, consume);
      EXPECT_EQ(consumed, part + 1 < parts ? 0 : layout.size());
    }
    expect_means(reducer, first, 0, 2, parts);
    EXPECT_EQ(on_host(parameters.view(), first), on_host(reducer.gradients(), first));
  });
}

TEST_F(ReducerOnDevice, TheTimeAStreamStoodStillIsTheDevices) {
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    Stream compute(comm.device());
    GradientReducer reducer(comm, layout);
    EXPECT_EQ(reducer.exposed_seconds(), 0);
    reducer.begin_step();
    if (comm.rank() == 1) std::this_thread::sleep_for(50ms);
    for (int i = layout.parameters() - 1; i >= 0; --i) produce(reducer, ParamId{i}, compute, 0, comm.rank());
    reducer.finish_step(compute);
    compute.synchronize(Deadline::in(30s));
    EXPECT_GT(reducer.exposed_seconds(), 0);
  });
}

}  // namespace
}  // namespace weft::test
