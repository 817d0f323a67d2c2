#include "weft/gradient/gradient_reducer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <thread>

#include "support/expect_error.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;

const ParamLayout layout(DataType::f32, {{"embedding", 1000}, {"weight", 333}, {"bias", 7}, {"head", 64}});

/// A value for each element that depends on step, rank, parameter and index, so that wrong sums differ.
float gradient_value(int step, int rank, int parameter, std::size_t i) {
  return 0.1F + static_cast<float>(step) * 3.3F + static_cast<float>(rank) * 1.7F +
         static_cast<float>(parameter) * 0.31F + static_cast<float>(i) * 0.0113F;
}

/// @param adds what accumulating() says when the work is submitted
void produce(GradientReducer& reducer, bool adds, int step, int rank, int parameter) {
  const auto out = reducer.gradient(ParamId{parameter}).as<float>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float value = gradient_value(step, rank, parameter, i);
    out[i] = adds ? out[i] + value : value;
  }
}

void backward(GradientReducer& reducer, const Stream& stream, int step, int rank) {
  for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
    produce(reducer, reducer.accumulating(), step, rank, parameter);
    reducer.mark_ready(ParamId{parameter}, stream);
  }
}

float mean(int ranks, int step, int parameter, std::size_t i) {
  float sum = gradient_value(step, 0, parameter, i);
  for (int rank = 1; rank < ranks; ++rank) sum += gradient_value(step, rank, parameter, i);
  return sum / static_cast<float>(ranks);
}

void expect_means(GradientReducer& reducer, int ranks, int step) {
  for (int parameter = 0; parameter < layout.parameters(); ++parameter) {
    const auto gradient = reducer.gradient(ParamId{parameter}).as<float>();
    for (std::size_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(gradient[i], mean(ranks, step, parameter, i));
  }
}

enum class Wire { queued, one_inline, many_inline };

// Makes the reducer's own choice many_inline. Set before there are threads that might read it.
[[maybe_unused]] const int progress_is_inline = setenv("WEFT_PROGRESS", "inline", 1);

std::optional<Stream> make_wire(Wire wire) {
  if (wire == Wire::many_inline) return std::nullopt;
  return wire == Wire::queued ? Stream::queued() : Stream();
}

struct Case {
  int ranks;
  std::size_t bucket_bytes;
  Wire wire;
  bool shared_memory;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) {
    constexpr std::array wires{"queued", "one inline", "many inline"};
    return out << one.ranks << " ranks, " << one.bucket_bytes << " bytes, "
               << wires[static_cast<std::size_t>(one.wire)] << (one.shared_memory ? "" : ", private memory");
  }
};

class EveryReducer : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Cases, EveryReducer,
    testing::Values(Case{1, 1024, Wire::one_inline, true}, Case{2, 1024, Wire::one_inline, true},
                    Case{2, 1, Wire::queued, true}, Case{3, 1 << 20, Wire::queued, true},
                    Case{4, 300, Wire::one_inline, false}, Case{5, 1024, Wire::queued, false},
                    Case{1, 1, Wire::many_inline, true}, Case{3, 1, Wire::many_inline, true},
                    Case{4, 300, Wire::many_inline, false}));

TEST_P(EveryReducer, GivesTheMeanOverRanksInRankOrder) {
  const Case one = GetParam();
  run_as_threads(one.ranks,
                 [&](Communicator comm) {
                   GradientReducer reducer(
                       comm, layout, {.buckets = BucketBytes{one.bucket_bytes}, .wire = make_wire(one.wire)});
                   Stream compute = one.wire == Wire::queued ? Stream() : Stream::queued();
                   for (int step = 0; step < 4; ++step) {
                     reducer.begin_step();
                     backward(reducer, compute, step, comm.rank());
                     reducer.finish_step(compute);
                     compute.synchronize();
                     expect_means(reducer, comm.size(), step);
                   }
                   EXPECT_EQ(comm.wire_bytes() > 0, comm.size() > 1);
                 },
                 {.shared_memory = one.shared_memory});
}

TEST(GradientReducer, HandsOutEachBucketInPlanOrderOnceItsMeanIsThere) {
  for (const Wire wire : {Wire::queued, Wire::many_inline}) {
    run_as_threads(3, [wire](Communicator comm) {
      GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1}, .wire = make_wire(wire)});
      Stream compute;
      std::vector<float> seen(static_cast<std::size_t>(layout.size()), -1);
      std::vector<std::int64_t> begins;
      const auto consume = [&](const Bucket& bucket) {
        compute.run([&] {
          begins.push_back(bucket.begin);
          const auto mean = reducer.gradients().slice(bucket.begin, bucket.count()).as<float>();
          std::ranges::copy(mean, seen.begin() + bucket.begin);
          std::this_thread::sleep_for(
              std::chrono::milliseconds(comm.rank()));  // others must get on without us
        });
      };
      reducer.begin_step(Exchange::no_sync);
      backward(reducer, compute, 0, comm.rank());
      reducer.finish_step(compute, consume);
      compute.synchronize();
      EXPECT_TRUE(begins.empty());
      for (int step = 1; step < 3; ++step) {
        begins.clear();
        reducer.begin_step();
        backward(reducer, compute, step, comm.rank());
        reducer.finish_step(compute, consume);
        compute.synchronize();
        EXPECT_TRUE(std::ranges::equal(seen, reducer.gradients().as<float>()));
        if (step == 2) expect_means(reducer, 3, step);  // step 1 was the second half of an accumulation
        std::vector<std::int64_t> expected;
        for (const Bucket& bucket : reducer.plan().buckets()) expected.push_back(bucket.begin);
        EXPECT_EQ(begins, expected);
      }
    });
  }
}

// Bitwise the means of a reducer that is not sharded, in half the bytes; also with accumulation, and when the
// plan changes on the way.
TEST(GradientReducer, ShardedMeansAreEachRanksPartOfTheSame) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const BucketChoice& buckets : {BucketChoice(BucketBytes{1}), BucketChoice(BucketBytes{2000}), {}}) {
      run_as_threads(ranks, [&](Communicator comm) {
        GradientReducer whole(comm, layout, {.buckets = BucketBytes{1 << 20}, .wire = Stream::queued()});
        GradientReducer sharded(comm, layout,
                                {.buckets = buckets, .means = Means::sharded, .wire = Stream::queued()});
        Stream compute;
        for (int step = 0; step < 8; ++step) {
          std::uint64_t sent = comm.wire_bytes();
          const auto exchange = step % 3 == 1 ? Exchange::no_sync : Exchange::now;
          for (GradientReducer* reducer : {&whole, &sharded}) {
            reducer->begin_step(exchange);
            sent = comm.wire_bytes();
            backward(*reducer, compute, step, comm.rank());
            reducer->finish_step(compute);
            compute.synchronize();
          }
          if (exchange == Exchange::no_sync) continue;
          std::int64_t elements = 0;
          for (const Bucket& bucket : sharded.plan().buckets()) {
            const auto part = sharded.means(bucket).as<float>();
            const std::int64_t begin = bucket.begin + comm.rank() * bucket.count() / comm.size();
            elements += bucket.count();
            for (std::size_t i = 0; i < part.size(); ++i) {
              const auto at = begin + static_cast<std::int64_t>(i);
              if (at >= layout.size()) continue;
              ASSERT_EQ(part[i], whole.gradients().as<float>()[static_cast<std::size_t>(at)])
                  << "element " << at << ", step " << step << ", " << ranks << " ranks";
            }
          }
          EXPECT_EQ(comm.wire_bytes() - sent, static_cast<std::uint64_t>(elements) * sizeof(float) /
                                                  static_cast<std::uint64_t>(ranks) *
                                                  static_cast<std::uint64_t>(ranks - 1));
        }
      });
    }
  }
}

/// Reduces by all_reduce, and checks that each bucket is one of the last plan.
struct PlanWatcher final : CommHook {
  std::string name() const override { return "watcher"; }
  void planned(const BucketPlan& plan, GradientSpace, Communicator&) override {
    ++plans;
    buckets = plan.buckets();
  }
  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream&,
              const Stream& wire) override {
    EXPECT_NE(std::ranges::find(buckets, bucket), buckets.end());
    comm.all_reduce(gradient, ReduceOp::avg, wire);
  }
  bool settled() const override { return steps >= late; }
  std::optional<std::size_t> bucket_bytes(const Communicator&) const override { return size; }
  std::optional<std::size_t> size{};
  int plans = 0;
  int late = 0;  ///< steps that are not like later ones
  int steps = 0;
  std::vector<Bucket> buckets;
};

TEST(GradientReducer, AHookMaySayHowLargeBucketsShouldBe) {
  run_as_threads(2, [](Communicator comm) {
    const auto watcher = std::make_shared<PlanWatcher>();
    watcher->size = 2000;
    const GradientReducer reducer(comm, layout, {.hook = watcher, .wire = Stream::queued()});
    EXPECT_EQ(reducer.plan(), plan_buckets(layout, 2000));
    const auto other = std::make_shared<PlanWatcher>();
    other->size = 2000;
    const GradientReducer told(comm, layout,
                               {.buckets = BucketBytes{1}, .hook = other, .wire = Stream::queued()});
    EXPECT_EQ(told.plan(), plan_buckets(layout, 1)) << "but the options decide";
  });
}

// A codec that starts late: how long buckets took before says nothing about later steps.
TEST(GradientReducer, PlansFromStepsThatAreLikeLaterOnes) {
  run_as_threads(2, [](Communicator comm) {
    const auto watcher = std::make_shared<PlanWatcher>();
    watcher->late = 5;
    GradientReducer reducer(comm, layout, {.hook = watcher, .wire = Stream::queued()});
    Stream compute;
    for (; watcher->steps < 20; ++watcher->steps) {
      reducer.begin_step();
      EXPECT_EQ(watcher->plans, watcher->steps < 5 + 5 ? 1 : 2) << "step " << watcher->steps;
      backward(reducer, compute, watcher->steps, comm.rank());
      reducer.finish_step(compute);
      compute.synchronize();
    }
  });
}

// Without a bucket size the first steps decide the buckets; changing them changes no bit, whether or not the
// host runs ahead of the compute stream.
TEST(GradientReducer, AllRanksChangeToOnePlanOnceTheyHaveSeenEnough) {
  std::mutex mutex;
  std::vector<std::string> told;
  log::set_sink([&](log::Level, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (line.find("planned") != std::string_view::npos) told.emplace_back(line);
  });
  log::set_level(log::Level::info);
  for (const bool runs_ahead : {false, true}) {
    told.clear();
    std::array<std::uint64_t, 3> hashes{};
    run_as_threads(3, [&](Communicator comm) {
      const auto watcher = std::make_shared<PlanWatcher>();
      GradientReducer reducer(comm, layout, {.hook = watcher, .wire = Stream::queued()});
      Stream compute = runs_ahead ? Stream::queued() : Stream();
      std::vector<const Bucket*> first;
      for (const Bucket& bucket : reducer.plan().buckets()) first.push_back(&bucket);
      for (int step = 0; step < 10; ++step) {
        reducer.begin_step();
        for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
          compute.run([&, step, parameter] { produce(reducer, false, step, comm.rank(), parameter); });
          reducer.mark_ready(ParamId{parameter}, compute);
        }
        reducer.finish_step(compute, [&, step](const Bucket& bucket) {
          compute.run([&, step] {
            for (const ParamId id : bucket.params) {
              const auto gradient = reducer.gradient(id).as<float>();
              const auto parameter = static_cast<int>(index(id));
              for (std::size_t i = 0; i < gradient.size(); ++i)
                ASSERT_EQ(gradient[i], mean(comm.size(), step, parameter, i)) << "step " << step;
            }
          });
        });
        if (!runs_ahead) compute.synchronize();
      }
      compute.synchronize();
      EXPECT_EQ(first.front()->end, layout.size());  // the first plan's buckets are still valid
      EXPECT_EQ(watcher->plans, 2);
      hashes[static_cast<std::size_t>(comm.rank())] = reducer.plan().hash();
    });
    EXPECT_EQ(told.size(), 3U);
    EXPECT_EQ(hashes[0], hashes[1]);
    EXPECT_EQ(hashes[0], hashes[2]);
  }
  log::set_level(log::Level::warn);
  log::set_sink({});
}

TEST(GradientReducer, AHookWithoutAReduceScatterReducesAllOfABucket) {
  run_as_threads(3, [](Communicator comm) {
    GradientReducer reducer(
        comm, layout,
        {.buckets = BucketBytes{2000}, .hook = std::make_shared<PlanWatcher>(), .means = Means::sharded});
    Stream compute;
    reducer.begin_step();
    backward(reducer, compute, 0, comm.rank());
    reducer.finish_step(compute);
    compute.synchronize();
    expect_means(reducer, comm.size(), 0);
  });
}

// Buckets of one size do not show the latency, which is then measured separately.
TEST(GradientReducer, AModelOfOneParameterIsPlannedToo) {
  run_as_threads(2, [](Communicator comm) {
    const ParamLayout one(DataType::f32, {{"weight", 1000}});
    GradientReducer reducer(comm, one, {.wire = Stream::queued()});
    Stream compute;
    for (int step = 0; step < 8; ++step) {
      reducer.begin_step();
      std::ranges::fill(reducer.gradient(ParamId{0}).as<float>(), static_cast<float>(comm.rank() + step));
      reducer.mark_ready(ParamId{0}, compute);
      reducer.finish_step(compute);
      compute.synchronize();
      EXPECT_EQ(reducer.gradients().as<float>()[999], 0.5F + static_cast<float>(step));
    }
    ASSERT_TRUE(reducer.profile());
    EXPECT_GT(reducer.profile()->link.latency_seconds, 0);
    EXPECT_EQ(reducer.plan().buckets().size(), 1U);
  });
}

// Ranks of small and large nodes: if one rank has no thread for its wire, no rank plans.
TEST(GradientReducer, RanksWithAndWithoutAThreadUseTheSameBuckets) {
  run_as_threads(2, [&](Communicator comm) {
    GradientReducer reducer(comm, layout, {.wire = comm.rank() == 0 ? Stream::queued() : Stream()});
    Stream compute;
    for (int step = 0; step < 8; ++step) {
      reducer.begin_step();
      backward(reducer, compute, step, comm.rank());
      reducer.finish_step(compute);
      compute.synchronize();
      expect_means(reducer, comm.size(), step);
    }
    EXPECT_FALSE(reducer.profile());
  });
}

TEST(GradientReducer, WaitsForWorkOfTheStreamThatProducedAGradient) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1}, .wire = Stream::queued()});
    Stream compute = Stream::queued();
    reducer.begin_step();
    for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
      compute.run([&reducer, &comm, parameter] {
        std::this_thread::sleep_for(5ms);
        produce(reducer, reducer.accumulating(), 0, comm.rank(), parameter);
      });
      reducer.mark_ready(ParamId{parameter}, compute);
    }
    reducer.finish_step(compute);
    compute.synchronize();
    expect_means(reducer, 2, 0);
  });
}

TEST(GradientReducer, ReadyOrderDoesNotMatter) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{512}, .wire = Stream()});
    Stream compute;
    std::vector<int> order{1, 3, 0, 2};
    if (comm.rank() == 1) std::ranges::reverse(order);
    reducer.begin_step();
    for (const int parameter : order) {
      produce(reducer, reducer.accumulating(), 0, comm.rank(), parameter);
      reducer.mark_ready(ParamId{parameter}, compute);
    }
    reducer.finish_step(compute);
    compute.synchronize();
    expect_means(reducer, 2, 0);
  });
}

TEST(GradientReducer, TwoRanksAreBitwiseOneRankThatAccumulatesTheirParts) {
  std::vector<float> two;
  run_as_threads(2, [&](Communicator comm) {
    GradientReducer reducer(comm, layout, {.wire = Stream()});
    Stream compute;
    reducer.begin_step();
    backward(reducer, compute, 0, comm.rank());
    reducer.finish_step(compute);
    compute.synchronize();
    if (comm.rank() == 0)
      two.assign(reducer.gradients().as<float>().begin(), reducer.gradients().as<float>().end());
  });
  GradientReducer reducer(self(), layout);
  Stream compute;
  for (int step = 0; step < 2; ++step) {  // the second round proves that accumulation starts afresh
    for (int part = 0; part < 2; ++part) {
      reducer.begin_step(part == 0 ? Exchange::no_sync : Exchange::now);
      EXPECT_EQ(reducer.accumulating(), part == 1);
      backward(reducer, compute, 0, part);
      reducer.finish_step(compute);
    }
    compute.synchronize();
    const auto one = reducer.gradients().as<float>();
    EXPECT_TRUE(std::ranges::equal(one, two));
  }
}

TEST(GradientReducer, NamesParametersMarkedTwiceNeverOrOutsideAStep) {
  Stream compute;
  const auto in_a_step = [&](const auto& body) {
    GradientReducer reducer(self(), layout);
    reducer.begin_step();
    reducer.mark_ready(ParamId{2}, compute);
    body(reducer);
  };
  test::expect_error(ErrorKind::usage, {"bias", "outside a step"},
                     [&] { GradientReducer(self(), layout).mark_ready(ParamId{2}, compute); });
  in_a_step([&](GradientReducer& reducer) {
    test::expect_error(ErrorKind::usage, {"bias", "twice"}, [&] { reducer.mark_ready(ParamId{2}, compute); });
  });
  in_a_step([&](GradientReducer& reducer) {
    test::expect_error(ErrorKind::usage, {"3 of 4", "embedding, weight, head"},
                       [&] { reducer.finish_step(compute); });
  });
  in_a_step([&](GradientReducer& reducer) {
    test::expect_error(ErrorKind::usage, {"3 of 4", "begin_step before finish_step"},
                       [&] { reducer.begin_step(); });
  });
  in_a_step([&](GradientReducer& reducer) {
    test::expect_error(ErrorKind::usage, {"parameter 9 of 4"},
                       [&] { reducer.mark_ready(ParamId{9}, compute); });
    for (const int parameter : {0, 1, 3}) reducer.mark_ready(ParamId{parameter}, compute);
    reducer.finish_step(compute);
    test::expect_error(ErrorKind::usage, {"no step is open"}, [&] { reducer.finish_step(compute); });
  });
}

TEST(GradientReducer, RanksWithDifferentModelsOrPlansAreNamedAtOnce) {
  using Specs = std::vector<ParamSpec>;
  const Specs model{{"embedding", 1000}, {"head", 64}};
  const auto differ = [&](const Specs& third, const std::string& said) {
    run_as_threads(4, [&](Communicator comm) {
      const ParamLayout own(DataType::f32, comm.rank() >= 2 ? third : model);
      test::expect_error(ErrorKind::mismatch, {"ranks have different models: " + said},
                         [&] { GradientReducer(comm, own); });
    });
  };
  differ({{"embedding", 1000}, {"head", 65}},
         "parameter 1 is head, 64 of f32 on rank 0 and head, 65 of f32 on rank 2");
  differ({{"tokens", 1000}, {"head", 64}},
         "parameter 0 is embedding, 1000 of f32 on rank 0 and tokens, 1000 of f32 on rank 2");
  differ({{"embedding", 1000}}, "rank 0 has 2 parameters and rank 2 1: head, 64 of f32 is only on rank 0");
  differ({{"embedding", 1000}, {"head", 64}, {"bias", 4}},
         "rank 0 has 2 parameters and rank 2 3: bias, 4 of f32 is only on rank 2");
  run_as_threads(2, [](Communicator comm) {
    const std::size_t bytes = comm.rank() == 0 ? 100 : 1000;
    test::expect_error(ErrorKind::mismatch, {"ranks 0 and 1", "different buckets"},
                       [&] { GradientReducer(comm, layout, {.buckets = BucketBytes{bytes}}); });
  });
}

TEST(GradientReducer, AHookReplacesTheCollective) {
  struct Zero final : CommHook {
    std::string name() const override { return "zero"; }
    void reduce(const Bucket&, View gradient, Communicator&, const Stream&, const Stream& wire) override {
      ++calls;
      Stream(wire).run([gradient] { std::ranges::fill(gradient.as<float>(), 0.0F); });
    }
    int calls = 0;
  };
  const auto hook = std::make_shared<Zero>();
  GradientReducer reducer(self(), layout, {.buckets = BucketBytes{1}, .hook = hook});
  Stream compute;
  reducer.begin_step();
  backward(reducer, compute, 0, 0);
  reducer.finish_step(compute);
  compute.synchronize();
  EXPECT_EQ(hook->calls, 4);
  const auto gradients = reducer.gradients().as<float>();
  EXPECT_EQ(std::accumulate(gradients.begin(), gradients.end(), 0.0F), 0.0F);
}

TEST(GradientReducer, NamesTwoThreadsThatUseItAtOnce) {
  run_as_threads(1, [](Communicator comm) {
    GradientReducer reducer(comm, ParamLayout(DataType::f32, {{"a", 16}}));
    Stream compute;
    reducer.begin_step();
    reducer.mark_ready(ParamId{0}, compute);
    int calls = 0;
    reducer.finish_step(compute, [&](const Bucket&) {
      reducer.poll();  // this thread's own
      std::thread([&] {
        test::expect_error(ErrorKind::usage,
                           {"two threads use one GradientReducer at once: thread ",
                            "calls poll while thread ", "is in finish_step", "rank 0"},
                           [&] { reducer.poll(); });
        ++calls;
      }).join();
    });
    EXPECT_EQ(calls, 1);
  });
  run_as_threads(1, [](Communicator comm) {  // one after the other
    GradientReducer reducer(comm, ParamLayout(DataType::f32, {{"a", 16}, {"b", 16}}));
    Stream compute;
    reducer.begin_step();
    for (const int parameter : {1, 0})
      std::thread([&] { reducer.mark_ready(ParamId{parameter}, compute); }).join();
    reducer.finish_step(compute);
  });
}

}  // namespace
}  // namespace weft
