#include "weft/zero/sharded_params.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::zero {
namespace {

const ParamLayout layout(DataType::f32, {{"first", 300}, {"second", 40}});

void load(ShardedParams& params, ParamId id, float value) {
  const std::vector<float> values(static_cast<std::size_t>(layout.count(id)), value);
  params.load(id, ConstView(std::span(values)));
}

TEST(ShardedParams, RefuseInitialValuesThatDifferByName) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool begins_with_gather : {false, true}) {
      run_as_threads(3, [&](Communicator comm) {
        ShardedParams params(comm, layout, {.stage = stage});
        load(params, ParamId{0}, 1);
        load(params, ParamId{1}, comm.rank() == 2 ? 1.5F : 1);
        Stream compute;
        test::expect_error(ErrorKind::mismatch,
                           {"ranks start with different values: parameter 1 is second", "on rank 0",
                            "on rank 2", "ShardedOptions::initial_values"},
                           [&] {
                             if (begins_with_gather) {
                               (void)params.gather(0, compute);
                             } else {
                               params.begin_step();
                             }
                           });
      });
    }
  }
}

TEST(ShardedParams, RefuseAParameterThatARankHasNotLoaded) {
  run_as_threads(2, [&](Communicator comm) {
    ShardedParams params(comm, layout, {.stage = 3});
    load(params, ParamId{1}, 1);
    if (comm.rank() == 0) load(params, ParamId{0}, 1);
    test::expect_error(ErrorKind::mismatch, {"first, 300 f32", "first, not loaded on rank 1"},
                       [&] { params.begin_step(); });
  });
}

TEST(ShardedParams, TakeTheValuesOfRankZeroWhereAsked) {
  for (const int stage : {0, 1, 2, 3}) {
    run_as_threads(2, [&](Communicator comm) {
      ShardedParams params(comm, layout, {.stage = stage, .initial_values = InitialValues::from_rank_0});
      for (const ParamId id : {ParamId{0}, ParamId{1}}) load(params, id, static_cast<float>(comm.rank() + 3));
      for (const ParamId id : {ParamId{0}, ParamId{1}}) {
        const Buffer whole = params.whole(id);
        for (const float value : whole.as<float>()) ASSERT_EQ(value, 3.0F) << "stage " << stage;
      }
    });
  }
}

// Hybrid sharding: the other set of ranks counts, too.
TEST(ShardedParams, CompareOverAllReplicas) {
  run_as_threads(4, [&](Communicator comm) {
    ShardedParams params(comm, layout, {.stage = 2, .shard_ranks = 2});
    load(params, ParamId{0}, comm.rank() == 3 ? 2 : 1);
    load(params, ParamId{1}, 1);
    test::expect_error(ErrorKind::mismatch, {"is first", "on rank 3"}, [&] { params.begin_step(); });
  });
}

TEST(ShardedParams, EndAMicroStepThatKeepsItsGradientsAndNoOther) {
  run_as_threads(2, [](Communicator comm) {
    ShardedParams params(comm, layout, {.stage = 2});
    ShardedOptimizer sgd(params, Sgd{.learning_rate = 1});
    Stream compute;
    const auto backward = [&](Exchange exchange) {
      params.begin_step(exchange);
      for (const ParamId id : {ParamId{1}, ParamId{0}}) {
        const View gradient = params.gradient(id, compute);
        for (float& one : gradient.as<float>()) one = params.accumulating() ? one + 1 : 1;
        params.mark_ready(id, compute);
      }
    };
    backward(Exchange::no_sync);
    params.finish_step(compute);
    backward(Exchange::now);
    test::expect_error(ErrorKind::usage, {"reduces gradients", "ShardedOptimizer::step()"},
                       [&] { params.finish_step(compute); });
    sgd.step(compute);
    EXPECT_EQ(params.whole(ParamId{0}).as<float>()[7], -1.0F);
  });
}

}  // namespace
}  // namespace weft::zero
