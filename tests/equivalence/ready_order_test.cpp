// Training in which gradients become ready in another order on every rank and in every step.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <random>

#include "long_training.hpp"
#include "weft/weft.hpp"

namespace weft {
namespace {

const ParamLayout layout(DataType::f32,
                         {{"a", 1000}, {"b", 333}, {"c", 7}, {"d", 64}, {"e", 2048}, {"f", 1}});

struct Order {
  bool shuffled = false;
  bool overlap = false;
  BucketChoice buckets = BucketBytes{2000};
};

/// Trains on a loss whose slope depends on every parameter, so that one wrong bit changes all later steps.
std::vector<float> train(const Order& order) {
  std::vector<float> result;
  std::mutex mutex;
  run_as_threads(3, [&](Communicator comm) {
    GradientReducer reducer(comm, layout,
                            {.buckets = order.buckets, .wire = order.overlap ? Stream::queued() : Stream()});
    std::vector<float> parameters(static_cast<std::size_t>(layout.size()), 0.5F);
    std::vector<int> ids(static_cast<std::size_t>(layout.parameters()));
    std::mt19937 random(static_cast<unsigned>(comm.rank()));
    Stream compute;
    for (int step = 0; step < test::long_training(); ++step) {
      std::iota(ids.rbegin(), ids.rend(), 0);
      if (order.shuffled) std::ranges::shuffle(ids, random);
      reducer.begin_step();
      for (const int id : ids) {
        const auto gradient = reducer.gradient(ParamId{id}).as<float>();
        const float* own = parameters.data() + layout.offset(ParamId{id});
        for (std::size_t i = 0; i < gradient.size(); ++i)
          gradient[i] =
              std::sin(7 * own[i] + static_cast<float>(comm.rank()) + 0.01F * static_cast<float>(i));
        reducer.mark_ready(ParamId{id}, compute);
      }
      reducer.finish_step(compute);
      compute.synchronize();
      const auto mean = reducer.gradients().as<float>();
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.3F * mean[i];
    }
    const std::lock_guard lock(mutex);
    if (result.empty()) result = parameters;
    EXPECT_EQ(parameters, result) << "ranks hold different parameters";
  });
  return result;
}

TEST(ReadyOrder, ShufflingItOnEveryRankChangesNoBit) {
  const std::vector<float> reference = train({});
  for (const bool overlap : {false, true}) {
    for (const BucketChoice& buckets : {BucketChoice(BucketBytes{1}), BucketChoice(BucketBytes{2000}),
                                        BucketChoice(BucketBytes{1 << 20}), BucketChoice()}) {
      EXPECT_EQ(train({.shuffled = true, .overlap = overlap, .buckets = buckets}), reference);
    }
  }
}

}  // namespace
}  // namespace weft
