// BucketsAsSeen: parameters that are laid out by kind, and a backward pass that goes by layer.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/expect_error.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft {
namespace {

constexpr int layers = 5;
constexpr int kinds = 3;
constexpr std::int64_t large = 4096;

/// The first kind is small: all its layers share a bucket.
ParamLayout by_kind() {
  std::vector<ParamSpec> specs;
  for (int kind = 0; kind < kinds; ++kind) {
    for (int layer = 0; layer < layers; ++layer)
      specs.push_back({.name = text("kind", kind, ".layer", layer), .count = kind == 0 ? 48 : large});
  }
  return {DataType::f32, specs};
}
const ParamLayout layout_by_kind = by_kind();

std::vector<ParamId> by_layer() {
  std::vector<ParamId> order;
  for (int layer = layers - 1; layer >= 0; --layer) {
    for (int kind = kinds - 1; kind >= 0; --kind) order.push_back(ParamId{kind * layers + layer});
  }
  return order;
}

BucketsAsSeen as_seen() {
  return {.bytes = std::size_t{1} << 20, .alone = large * sizeof(float)};
}

std::vector<float> gradient(int rank, ParamId id, int step) {
  std::vector<float> values(static_cast<std::size_t>(layout_by_kind.count(id)));
  float value = 0.7F * static_cast<float>(rank + 1) + 0.1F * static_cast<float>(index(id)) +
                0.01F * static_cast<float>(step);
  for (float& one : values) one = value = value * 1.001F + 0.013F;
  return values;
}

void step(GradientReducer& reducer, int rank, const std::vector<ParamId>& order, int number) {
  Stream compute;
  reducer.begin_step();
  for (const ParamId id : order) {
    const std::vector<float> values = gradient(rank, id, number);
    reducer.mark_ready(id, ConstView(std::span(values)), compute);
    compute.synchronize();
  }
  reducer.finish_step(compute);
  compute.synchronize();
}

/// By bucket that holds one parameter: which; the bucket of the small ones is -1.
std::vector<int> leaving(const GradientReducer& reducer) {
  std::vector<int> all;
  for (const Bucket& bucket : reducer.plan().buckets())
    all.push_back(bucket.params.size() == 1 ? static_cast<int>(bucket.params.front()) : -1);
  return all;
}

void expect_same_means(GradientReducer& reducer, GradientReducer& twin) {
  for (int i = 0; i < layout_by_kind.parameters(); ++i) {
    EXPECT_TRUE(std::ranges::equal(reducer.gradient(ParamId{i}).as<const float>(),
                                   twin.gradient(ParamId{i}).as<const float>()))
        << layout_by_kind.name(ParamId{i});
  }
}

TEST(BucketsAsSeen, LeaveInTheOrderOfBackwardFromTheSecondStepOn) {
  const std::vector<int> wanted = {14, 9, 13, 8, 12, 7, 11, 6, 10, 5, -1};
  for (const bool queued : {false, true}) {
    run_as_threads(2, [&](Communicator comm) {
      const auto wire = [&] { return queued ? Stream::queued() : Stream(); };
      GradientReducer reducer(comm, layout_by_kind, {.buckets = as_seen(), .wire = wire()});
      GradientReducer twin(comm, layout_by_kind, {.buckets = BucketBytes{1 << 20}, .wire = wire()});
      EXPECT_EQ(leaving(reducer), (std::vector<int>{14, 13, 12, 11, 10, 9, 8, 7, 6, 5, -1}));
      const BucketPlan& first = reducer.plan();
      for (int number = 0; number < 4; ++number) {
        step(reducer, comm.rank(), by_layer(), number);
        step(twin, comm.rank(), by_layer(), number);
        expect_same_means(reducer, twin);
        EXPECT_EQ(leaving(reducer) == wanted, number > 0);
      }
      EXPECT_EQ(first.buckets().size(), wanted.size());  // consumers may still hold its buckets
    });
  }
}

TEST(BucketsAsSeen, AreCompleteWhereTheirGradientsCameLast) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout_by_kind, {.buckets = as_seen()});
    std::vector<ParamId> order = by_layer();
    if (comm.rank() == 1) std::swap(order[0], order[7]);  // 14 and 8
    for (int number = 0; number < 2; ++number) step(reducer, comm.rank(), order, number);
    const std::vector<int> got = leaving(reducer);
    EXPECT_EQ(got.front(), 9);
    EXPECT_EQ(std::ranges::count(got, 14), 1);
    EXPECT_LT(std::ranges::find(got, 12), std::ranges::find(got, 14));
  });
}

/// Whatever the order was, on each rank another: the means have the bits of those in the layout's order.
TEST(BucketsAsSeen, HaveTheMeansOfOtherBucketsInAnyOrderWithEachHook) {
  using Made = std::shared_ptr<CommHook> (*)();
  const std::vector<std::pair<const char*, Made>> hooks = {{"all_reduce", [] { return all_reduce_hook(); }},
                                                           {"cast", [] { return cast_hook(DataType::bf16); }},
                                                           {"tree", [] { return tree_hook(4); }}};
  for (const auto& [hook, made] : hooks) {
    for (int trial = 0; trial < 6; ++trial) {
      SCOPED_TRACE(text(hook, ", trial ", trial));
      run_as_threads(4, [&, make = made](Communicator comm) {
        std::mt19937 draw(static_cast<unsigned>(100 * trial + comm.rank()));
        std::vector<ParamId> order = by_layer();
        GradientReducer reducer(comm, layout_by_kind, {.buckets = as_seen(), .hook = make()});
        GradientReducer twin(
            comm, layout_by_kind,
            {.buckets = plan_buckets(layout_by_kind, 1 << 20, large * sizeof(float)), .hook = make()});
        for (int number = 0; number < 4; ++number) {
          std::ranges::shuffle(order, draw);
          step(reducer, comm.rank(), order, number);
          step(twin, comm.rank(), order, number);
          expect_same_means(reducer, twin);
        }
      });
    }
  }
}

TEST(BucketsAsSeen, LearnFromTheFirstExchangedStep) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout_by_kind, {.buckets = as_seen()});
    Stream compute;
    reducer.begin_step(Exchange::no_sync);
    for (int i = layout_by_kind.parameters() - 1; i >= 0; --i) reducer.mark_ready(ParamId{i}, compute);
    reducer.finish_step(compute);
    step(reducer, comm.rank(), by_layer(), 0);
    EXPECT_EQ(leaving(reducer)[1], 13);
    step(reducer, comm.rank(), by_layer(), 1);
    EXPECT_EQ(leaving(reducer)[1], 9);
  });
}

TEST(BucketsAsSeen, AreAnOptionThatRanksAgreeOn) {
  run_as_threads(2, [](Communicator comm) {
    const BucketChoice mine =
        comm.rank() == 0 ? BucketChoice(as_seen()) : BucketChoice(BucketBytes{as_seen().bytes});
    test::expect_error(ErrorKind::mismatch, {"different ReducerOptions", "in the order seen"},
                       [&] { GradientReducer(comm, layout_by_kind, {.buckets = mine}); });
  });
}

}  // namespace
}  // namespace weft
