// Gradients in a bucket ring: the same bits as in an arena, in less memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "support/expect_error.hpp"
#include "support/fake_cuda.hpp"
#include "support/ranks_with_fakes.hpp"
#include "support/sharded_training.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"

namespace weft {
namespace {

using test::ShardedTraining;

const ParamLayout layout(
    DataType::f32,
    {{"embedding", 1000}, {"in", 333}, {"norm", 7}, {"out", 500}, {"scale", 64}, {"head", 700}, {"bias", 9}});

BucketPlan plan_for(int ranks, std::size_t bucket_bytes, std::int64_t block = 32) {
  return plan_whole_buckets(layout, bucket_bytes, block * ranks, {ParamId{1}, ParamId{4}});
}

void expect_equal(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t step = 0; step < a.size(); ++step) {
    ASSERT_EQ(a[step].size(), b[step].size());
    for (std::size_t i = 0; i < a[step].size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(a[step][i]), std::bit_cast<std::uint32_t>(b[step][i]))
          << "step " << step << ", element " << i << ": " << a[step][i] << " and " << b[step][i];
  }
}

struct Case {
  int ranks;
  std::size_t bucket_bytes;
  std::size_t bucket_ring_bytes;
  bool queued_wire;
  bool queued_compute;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) {
    return out << one.ranks << " ranks, buckets of " << one.bucket_bytes << " bytes, a ring of "
               << one.bucket_ring_bytes << (one.queued_wire ? ", queued wire" : "")
               << (one.queued_compute ? ", queued compute" : "");
  }
};
class EveryRingSize : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, EveryRingSize,
                         testing::Values(Case{1, 1, 0, false, false}, Case{1, 2000, 6000, true, true},
                                         Case{2, 1, 0, false, false}, Case{2, 1, 6000, true, true},
                                         Case{2, 2000, 0, true, false}, Case{2, 2000, 5000, false, true},
                                         Case{3, 1, 5000, true, true}, Case{4, 1, 0, true, true},
                                         Case{4, 1, 0, false, false}, Case{4, 2000, 7000, false, false},
                                         Case{4, 1 << 20, 0, true, false}));

ShardedTraining training_of(const Case& one) {
  return {.plan = plan_for(one.ranks, one.bucket_bytes),
          .ranks = one.ranks,
          .steps = 4,
          .queued_wire = one.queued_wire,
          .queued_compute = one.queued_compute};
}

TEST_P(EveryRingSize, GivesTheBitsOfAnArena) {
  ShardedTraining training = training_of(GetParam());
  const auto arena = training.run();
  training.bucket_ring_bytes = GetParam().bucket_ring_bytes;
  expect_equal(training.run(), arena);
}

// The means of each micro-step are those of a separate step; the store adds them in order.
TEST_P(EveryRingSize, AddsUpTheMeansOfMicroSteps) {
  ShardedTraining training = training_of(GetParam());
  training.steps = 6;
  const auto single = training.run();
  training.steps = 2;
  training.micro_steps = 3;
  training.bucket_ring_bytes = GetParam().bucket_ring_bytes;
  std::vector<std::vector<float>> expected;
  for (std::size_t step = 0; step < 6; step += 3) {
    std::vector<float>& sum = expected.emplace_back(single[step]);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = (single[step][i] + single[step + 1][i] + single[step + 2][i]) / 3;
  }
  expect_equal(training.run(), expected);
}

TEST_P(EveryRingSize, CastsInMemoryOfItsOwn) {
  ShardedTraining training = training_of(GetParam());
  training.hook = [] { return cast_hook(DataType::bf16); };
  const auto arena = training.run();
  training.bucket_ring_bytes = GetParam().bucket_ring_bytes;
  expect_equal(training.run(), arena);
}

TEST_P(EveryRingSize, SumsByATreeInMemoryOfItsOwn) {
  ShardedTraining training = training_of(GetParam());
  training.hook = [] { return cast_hook(DataType::f64, tree_hook()); };
  if (!std::has_single_bit(static_cast<unsigned>(training.ranks))) {
    test::expect_error(ErrorKind::usage, {"a deterministic tree of sums over 3 ranks"},
                       [&] { training.run(); });
    return;
  }
  const auto arena = training.run();
  training.bucket_ring_bytes = GetParam().bucket_ring_bytes;
  expect_equal(training.run(), arena);
}

TEST_P(EveryRingSize, SumsTheSameSquares) {
  const Case one = GetParam();
  ShardedTraining training = training_of(one);
  training.plan = plan_for(one.ranks, one.bucket_bytes, 192);
  training.options.norm_block = 192;
  std::vector<std::vector<double>> squares(static_cast<std::size_t>(one.ranks * training.steps));
  const auto run = [&](std::vector<std::vector<double>>& all) {
    training.after = [&](GradientReducer& reducer, int rank, int step) {
      const auto sums = reducer.squares().as<const double>();
      all[static_cast<std::size_t>(rank * training.steps + step)].assign(sums.begin(), sums.end());
    };
    training.run();
  };
  auto in_a_ring = squares;
  run(squares);
  training.bucket_ring_bytes = one.bucket_ring_bytes;
  run(in_a_ring);
  EXPECT_EQ(in_a_ring, squares);
  EXPECT_GT(*std::ranges::max_element(squares.front()), 0);
}

TEST_P(EveryRingSize, CountsWhatIsBadInEveryMicroStep) {
  const Case one = GetParam();
  ShardedTraining training = training_of(one);
  training.steps = 3;
  training.micro_steps = 2;
  training.bucket_ring_bytes = one.bucket_ring_bytes;
  training.options.count_bad_values = true;
  training.value = [&](int rank, int step, int parameter, std::size_t i) {
    if (rank == one.ranks - 1 && step == 2 && parameter == 3 && i < 5)
      return std::numeric_limits<float>::quiet_NaN();
    if (rank == one.ranks - 1 && step == 3 && parameter == 1 && i == 7)
      return std::numeric_limits<float>::infinity();
    return test::any_value(rank, step, parameter, i);
  };
  training.after = [&](GradientReducer& reducer, int, int step) {
    const auto found = reducer.bad_values();
    ASSERT_EQ(found.size(), step == 1 ? 1U : 0U) << "step " << step;
    if (step != 1) return;
    EXPECT_EQ(found[0].rank, one.ranks - 1);
    EXPECT_EQ(found[0].first, ParamId{1});
    EXPECT_EQ(found[0].nans, 5);
    EXPECT_EQ(found[0].infinities, 1);
    EXPECT_EQ(found[0].step, 4U);
  };
  training.run();
}

/// Records how many elements of memory a hook is given.
struct MemoryWatcher final : CommHook {
  std::string name() const override { return "watcher"; }
  void planned(const BucketPlan&, GradientSpace gradients, Communicator&) override {
    elements = gradients.memory().count();
  }
  void reduce(const Bucket&, View gradient, Communicator& comm, const Stream&, const Stream& wire) override {
    comm.all_reduce(gradient, ReduceOp::avg, wire);
  }
  std::int64_t elements = 0;
};

TEST(ReducerRing, TakeTheMemoryThatWasAskedFor) {
  run_as_threads(2, [](Communicator comm) {
    for (const auto& [bytes, expected] : {std::pair<std::size_t, std::int64_t>{0, 1024},  // the embedding
                                          {6000, 5888 / 4},
                                          {6144, 6144 / 4},
                                          {1 << 20, plan_for(2, 1).end()}}) {
      const auto hook = std::make_shared<MemoryWatcher>();
      const BucketPlan plan = plan_for(2, 1);
      GradientReducer reducer(
          comm, layout, {.buckets = plan, .ring = BucketRing{bytes}, .hook = hook, .means = Means::sharded});
      EXPECT_EQ(hook->elements, expected) << bytes << " bytes";
      EXPECT_EQ(reducer.layout().hash(), plan.layout().hash());
      std::int64_t kept = 0;
      for (const Bucket& bucket : plan.buckets()) {
        const View part = reducer.means(bucket);
        EXPECT_EQ(part.count(), bucket.count() / 2);
        EXPECT_EQ(part.bytes() - reducer.means(plan.buckets().front()).bytes(), 4 * kept);
        kept += part.count();
      }
      EXPECT_EQ(kept, plan.end() / 2);
    }
  });
}

// A gradient that lies elsewhere is copied when its place is free.
TEST(ReducerRing, TakeGradientsThatLieElsewhere) {
  ShardedTraining training{.plan = plan_for(2, 1), .ranks = 2, .steps = 2};
  const auto arena = training.run();
  run_as_threads(2, [&](Communicator comm) {
    GradientReducer reducer(
        comm, layout,
        {.buckets = training.plan, .ring = BucketRing{0}, .means = Means::sharded, .wire = Stream::queued()});
    Stream compute = Stream::queued();
    for (int step = 0; step < 2; ++step) {
      std::vector<std::vector<float>> brought;
      reducer.begin_step();
      for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
        auto& values = brought.emplace_back(static_cast<std::size_t>(layout.count(ParamId{parameter})));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = test::any_value(comm.rank(), step, parameter, i);
        reducer.mark_ready(ParamId{parameter}, ConstView(std::span<const float>(values)), compute);
      }
      reducer.finish_step(compute);
      compute.synchronize();
      for (const Bucket& bucket : training.plan.buckets()) {
        const auto part = reducer.means(bucket).as<float>();
        const auto expected =
            arena[static_cast<std::size_t>(step)].begin() + bucket.begin + comm.rank() * std::ssize(part);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), expected));
      }
    }
    const StepHistory history = reducer.account();
    ASSERT_EQ(history.steps.size(), 2U);
    EXPECT_GT(history.steps.back().exposed_seconds, 0);
  });
}

// An account covers the last micro-step of each step; exposed_seconds() counts all of them.
TEST(ReducerRing, AccountForTheLastMicroSteps) {
  ShardedTraining training{
      .plan = plan_for(2, 1), .ranks = 2, .steps = 3, .micro_steps = 2, .bucket_ring_bytes = 0};
  training.after = [](GradientReducer& reducer, int, int step) {
    const StepHistory history = reducer.account();
    ASSERT_EQ(history.steps.size(), 1U);
    EXPECT_EQ(history.steps.front().step, static_cast<std::uint64_t>(2 * step + 2));
    EXPECT_GE(history.steps.front().seconds, history.steps.front().exposed_seconds);
    EXPECT_GT(reducer.exposed_seconds(), history.steps.front().exposed_seconds);
  };
  training.run();
}

ReducerOptions in_a_ring(int ranks) {
  return {.buckets = plan_for(ranks, 1), .ring = BucketRing{0}, .means = Means::sharded};
}

/// Gradients in an order in which weights that are tied make them: that of the first or the last layer is complete last.
/// In the smallest ring, which holds one bucket, nothing is refused, and the means have the bits of an arena's.
void expect_means_in_order(Communicator comm, const std::vector<int>& asked, const std::vector<int>& marked,
                           bool elsewhere) {
  GradientReducer ring(comm, layout, in_a_ring(comm.size()));
  GradientReducer arena(comm, layout, {.buckets = plan_for(comm.size(), 1), .means = Means::sharded});
  Stream compute;
  const auto fill = [&](View place, int parameter, int step) {
    for (std::size_t i = 0; i < place.as<float>().size(); ++i)
      place.as<float>()[i] = static_cast<float>(parameter + step) + 0.25F * static_cast<float>(i % 7) +
                             static_cast<float>(comm.rank());
  };
  for (int step = 0; step < 3; ++step) {
    ring.begin_step();
    arena.begin_step();
    std::map<int, View> places;
    std::map<int, std::vector<float>> own;
    for (const int parameter : asked) {
      if (!elsewhere) fill(places[parameter] = ring.gradient(ParamId{parameter}, compute), parameter, step);
    }
    for (const int parameter : marked) {
      const ParamId id{parameter};
      fill(arena.gradient(id), parameter, step);
      arena.mark_ready(id, compute);
      if (elsewhere) {
        auto& values = own[parameter];
        values.resize(static_cast<std::size_t>(layout.count(id)));
        fill(View(std::span(values)), parameter, step);
        ring.mark_ready(id, ConstView(std::span<const float>(values)), compute);
      } else {
        if (!places.contains(parameter)) fill(ring.gradient(id, compute), parameter, step);
        ring.mark_ready(id, compute);
      }
    }
    ring.finish_step(compute);
    arena.finish_step(compute);
    compute.synchronize();
    for (const Bucket& bucket : ring.plan().buckets()) {
      const auto got = ring.means(bucket).as<float>(), wanted = arena.means(bucket).as<float>();
      ASSERT_EQ(got.size(), wanted.size());
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], wanted[i]) << i << " in step " << step;
    }
  }
}

TEST(ReducerRing, TakesGradientsInAnyOrder) {
  std::vector<int> parameters(static_cast<std::size_t>(layout.parameters()));
  std::iota(parameters.begin(), parameters.end(), 0);
  std::mt19937 random(3);
  for (int trial = 0; trial < 24; ++trial) {
    std::vector<int> marked = parameters, asked;
    if (trial == 0) std::ranges::reverse(marked);                     // as backward goes
    if (trial == 1) std::ranges::rotate(marked, marked.begin() + 1);  // the first is complete last
    if (trial > 1) std::ranges::shuffle(marked, random);
    if (trial % 3 == 1) asked = marked;           // all places at first
    if (trial % 3 == 2) asked = {marked.back()};  // that of the tied one alone
    for (const bool elsewhere : {false, true}) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << (elsewhere ? " elsewhere" : ""));
      run_as_threads(2, [&](Communicator comm) { expect_means_in_order(comm, asked, marked, elsewhere); });
    }
  }
}

TEST(ReducerRing, AGradientAsideIsMarkedOnceAndIsMissedWhereOthersAreNotMarked) {
  run_as_threads(1, [](Communicator comm) {
    Stream compute;
    {
      GradientReducer reducer(comm, layout, in_a_ring(1));
      reducer.begin_step();
      reducer.gradient(ParamId{0}, compute);
      reducer.mark_ready(ParamId{0}, compute);
      test::expect_error(ErrorKind::usage, {"embedding was marked ready twice"},
                         [&] { reducer.mark_ready(ParamId{0}, compute); });
    }
  });
  run_as_threads(1, [](Communicator comm) {
    Stream compute;
    GradientReducer reducer(comm, layout, in_a_ring(1));
    reducer.begin_step();
    for (const int parameter : {0, 6, 4, 2}) {
      reducer.gradient(ParamId{parameter}, compute);
      reducer.mark_ready(ParamId{parameter}, compute);
    }
    test::expect_error(ErrorKind::usage, {"3 of 7 parameters were never marked ready"},
                       [&] { reducer.finish_step(compute); });
  });
}

TEST(ReducerRing, HaveNoArenaAndNoPlaceOutsideAStep) {
  Stream compute;
  GradientReducer reducer(self(), layout, in_a_ring(1));
  EXPECT_FALSE(reducer.accumulating());
  test::expect_error(ErrorKind::usage, {"gradients()", "gradient(id, stream)", "means(bucket)"},
                     [&] { reducer.gradients(); });
  test::expect_error(ErrorKind::usage, {"gradient(id, stream)"}, [&] { reducer.gradient(ParamId{0}); });
  test::expect_error(ErrorKind::usage, {"bias", "outside a step", "begin_step"},
                     [&] { reducer.gradient(ParamId{6}, compute); });
  test::expect_error(ErrorKind::usage, {"parameter 7 of 7"}, [&] { reducer.gradient(ParamId{7}, compute); });
  test::expect_error(ErrorKind::usage, {"[5, 6)", "no plan"}, [&] { reducer.means({5, 6, {}}); });
  reducer.begin_step();
  reducer.gradient(ParamId{6}, compute);
  reducer.mark_ready(ParamId{6}, compute);
  test::expect_error(ErrorKind::usage, {"bias", "is marked ready", "before it is marked"},
                     [&] { reducer.gradient(ParamId{6}, compute); });
  GradientReducer another(self(), layout, in_a_ring(1));
  another.begin_step();
  test::expect_error(ErrorKind::usage, {"no place was asked for", "bias", "gradient(id, stream)"},
                     [&] { another.mark_ready(ParamId{6}, compute); });
}

TEST(ReducerRing, WithoutThemAPlaceIsTheArenas) {
  Stream compute;
  GradientReducer reducer(self(), layout);
  EXPECT_EQ(reducer.gradient(ParamId{3}, compute).data(), reducer.gradient(ParamId{3}).data());
  test::expect_error(ErrorKind::usage, {"parameter 7 of 7"}, [&] { reducer.gradient(ParamId{7}, compute); });
}

TEST(ReducerRing, AreRefusedBesideWhatTheyCannotHold) {
  const auto refused = [](std::initializer_list<std::string> parts, const auto& change) {
    ReducerOptions options = in_a_ring(1);
    change(options);
    test::expect_error(ErrorKind::usage, parts, [&] { GradientReducer(self(), layout, options); });
  };
  refused({"without sharded means", "Means::sharded"}, [](auto& one) { one.means = Means::everywhere; });
  refused({"without a plan", "plan_whole_buckets"}, [](auto& one) { one.buckets = BucketBytes{1}; });
  refused({"beside a tree of micro-batches"}, [](auto& one) { one.hook = tree_hook(1); });
  refused({"may be unused", "mark every parameter"}, [](auto& one) { one.unused = Unused::find; });
  refused({"uneven batches"}, [](auto& one) { one.uneven = Uneven::mean_of_all; });
  refused({"embedding lies in two buckets", "plan_whole_buckets"}, [](auto& one) {
    one.buckets = aligned(BucketPlan(layout, {{32, layout.size(), {}}, {0, 32, {}}}), 32);
  });
}

TEST(GivenPlan, IsThePlan) {
  run_as_threads(2, [](Communicator comm) {
    const BucketPlan plan = plan_for(2, 2000);
    const GradientReducer sharded(comm, layout,
                                  {.buckets = plan, .means = Means::sharded, .wire = Stream::queued()});
    EXPECT_EQ(sharded.plan(), plan);
    const BucketPlan small = plan_buckets(layout, 1);
    GradientReducer everywhere(comm, layout, {.buckets = small, .wire = Stream::queued()});
    Stream compute;
    for (int step = 0; step < 8; ++step) {
      everywhere.begin_step();
      for (int parameter = 0; parameter < layout.parameters(); ++parameter)
        everywhere.mark_ready(ParamId{parameter}, compute);
      everywhere.finish_step(compute);
      compute.synchronize();
    }
    EXPECT_EQ(everywhere.plan(), small) << "also when there is something to plan from";
  });
}

TEST(GivenPlan, IsRefusedWhereItDoesNotFit) {
  const auto refused = [](std::initializer_list<std::string> parts, const ReducerOptions& options) {
    run_as_threads(2, [&](Communicator comm) {
      test::expect_error(ErrorKind::usage, parts, [&] { GradientReducer(comm, layout, options); });
    });
  };
  const BucketPlan plan = plan_for(2, 2000);
  const auto with_buckets = [&](auto change) {
    std::vector<Bucket> buckets = plan.buckets();
    change(buckets);
    return ReducerOptions{.buckets = BucketPlan(plan.layout(), buckets)};
  };
  refused({"its 1 parameters of f32", "the reducer's 7"},
          {.buckets = plan_buckets(ParamLayout(DataType::f32, {{"a", 1}}), 1)});
  refused({"is in one bucket"}, with_buckets([](auto& buckets) { buckets.pop_back(); }));
  refused({"buckets end at element"}, with_buckets([](auto& buckets) { buckets.erase(buckets.begin()); }));
  refused({"follows on element"}, with_buckets([](auto& buckets) { buckets.push_back(buckets.back()); }));
  refused({"does not list the parameters"},
          with_buckets([](auto& buckets) { buckets[0].params.pop_back(); }));
  refused({"2 ranks with a part each of multiples of 32", "a unit of 64"},
          {.buckets = plan_buckets(layout, 1), .means = Means::sharded});
  refused({"a part each of multiples of 192", "a unit of 384"},
          {.buckets = plan, .means = Means::sharded, .norm_block = 192});
  struct Blocks final : CommHook {
    std::string name() const override { return "blocks"; }
    std::int64_t granularity() const override { return 256; }
    void reduce(const Bucket&, View, Communicator&, const Stream&, const Stream&) override {}
  };
  refused({"multiples of 256 elements", "aligned()"}, {.buckets = plan, .hook = std::make_shared<Blocks>()});
  refused({"2 ranks with a part each of multiples of 256", "a unit of 512"},
          {.buckets = plan, .hook = std::make_shared<Blocks>(), .means = Means::sharded});
}

TEST(GivenPlan, MustBeTheSameOnAllRanks) {
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(ErrorKind::mismatch, {"different buckets"}, [&] {
      GradientReducer(comm, layout, {.buckets = plan_for(2, comm.rank() == 0 ? 1 : 2000)});
    });
  });
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(ErrorKind::mismatch, {"a ring of 4096 bytes", "a ring of 8192 bytes"}, [&] {
      ReducerOptions options = in_a_ring(2);
      options.ring = BucketRing{comm.rank() == 0 ? 4096U : 8192U};
      GradientReducer(comm, layout, options);
    });
  });
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(
        ErrorKind::mismatch,
        {"parameter 0 is embedding, 1000 of f32 on rank 0 and", "at 0 of 2752 elements on rank 1"},
        [&] { GradientReducer(comm, comm.rank() == 0 ? layout : layout.with_starts({}, 64)); });
  });
}

class RingOnDevice : public testing::Test {
 protected:
  test::WithFakeCuda cuda_;
  test::FakeNcclRanks nccl_;
};

// The host runs ahead; the device's stream waits for places.
TEST_F(RingOnDevice, GiveTheBitsOfAnArena) {
  const auto run = [&](std::optional<BucketRing> ring) {
    std::vector<std::vector<float>> all(2);
    test::run_with_fakes(nccl_, 2, [&](Communicator comm) {
      const BucketPlan plan = plan_for(2, 1);
      GradientReducer reducer(comm, layout, {.buckets = plan, .ring = ring, .means = Means::sharded});
      Stream compute(comm.device());
      for (int step = 0; step < 4; ++step) {
        reducer.begin_step();
        for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
          const View place = reducer.gradient(ParamId{parameter}, compute);
          compute.run([=, rank = comm.rank(), native = native_handle(compute)] {
            test::FakeCuda::enqueue(native, [=] {
              auto* values = static_cast<float*>(place.data());
              for (std::int64_t i = 0; i < place.count(); ++i)
                values[i] = test::any_value(rank, step, parameter, static_cast<std::size_t>(i));
            });
          });
          reducer.mark_ready(ParamId{parameter}, compute);
        }
        reducer.finish_step(compute);
      }
      auto& mine = all[static_cast<std::size_t>(comm.rank())];
      for (const Bucket& bucket : plan.buckets()) {
        std::vector<float> part(static_cast<std::size_t>(bucket.count() / 2));
        copy(View(std::span(part)), reducer.means(bucket), compute);
        compute.synchronize(Deadline::in(std::chrono::seconds(30)));
        mine.insert(mine.end(), part.begin(), part.end());
      }
    });
    return all;
  };
  const auto arena = run(std::nullopt);
  expect_equal(run(BucketRing{0}), arena);
  expect_equal(run(BucketRing{6000}), arena);
}

}  // namespace
}  // namespace weft
