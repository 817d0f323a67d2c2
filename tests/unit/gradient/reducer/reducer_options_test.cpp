// The options of a reducer: unused parameters, uneven batches, other data types, deterministic trees, bad
// values, norms.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "support/expect_error.hpp"
#include "weft/core/log.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;

const ParamLayout layout(DataType::f32, {{"embedding", 1000}, {"weight", 333}, {"bias", 7}, {"head", 64}});

float value(int step, int part, int parameter, std::size_t i) {
  return 0.1F + static_cast<float>(step) * 3.3F + static_cast<float>(part) * 1.7F +
         static_cast<float>(parameter) * 0.31F + static_cast<float>(i) * 0.0113F;
}

void produce(GradientReducer& reducer, int parameter, int step, int part) {
  const auto out = reducer.gradient(ParamId{parameter}).as<float>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float one = value(step, part, parameter, i);
    out[i] = reducer.accumulating() ? out[i] + one : one;
  }
}

/// All parameters but those that `skips` names.
void backward(GradientReducer& reducer, const Stream& stream, int step, int part,
              const std::function<bool(int parameter)>& skips = nullptr) {
  for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
    if (skips && skips(parameter)) continue;
    produce(reducer, parameter, step, part);
    reducer.mark_ready(ParamId{parameter}, stream);
  }
}

/// A wire with a thread, one inline, many inline.
std::vector<std::optional<Stream>> wires() {
  return {Stream::queued(), Stream(), std::nullopt};
}

void expect_mean_of(GradientReducer& reducer, int parameter, int step, const std::vector<int>& parts,
                    int divisor) {
  const auto gradient = reducer.gradient(ParamId{parameter}).as<float>();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    float sum = 0;
    for (const int part : parts) sum += value(step, part, parameter, i);
    ASSERT_EQ(gradient[i], sum / static_cast<float>(divisor))
        << "parameter " << parameter << ", element " << i;
  }
}

class OnEveryWire : public testing::TestWithParam<int> {
 protected:
  static std::optional<Stream> wire() { return wires()[static_cast<std::size_t>(GetParam())]; }
};
INSTANTIATE_TEST_SUITE_P(Wires, OnEveryWire, testing::Range(0, 3));

TEST_P(OnEveryWire, AnUnusedParameterIsZeroHereAndTheMeanStillComes) {
  run_as_threads(3, [](Communicator comm) {
    GradientReducer reducer(comm, layout,
                            {.buckets = BucketBytes{1}, .wire = wire(), .unused = Unused::find});
    Stream compute;
    for (int step = 0; step < 3; ++step) {
      reducer.begin_step();
      // Only ranks 1 and 2 use the head; no rank uses the bias in step 1.
      backward(reducer, compute, step, comm.rank(), [&](int parameter) {
        return (parameter == 3 && comm.rank() == 0) || (parameter == 2 && step == 1);
      });
      reducer.finish_step(compute);
      compute.synchronize();
      expect_mean_of(reducer, 3, step, {1, 2}, 3);
      expect_mean_of(reducer, 0, step, {0, 1, 2}, 3);
      EXPECT_TRUE(reducer.used(ParamId{3}));
      EXPECT_EQ(reducer.used(ParamId{2}), step != 1);
      if (step == 1) expect_mean_of(reducer, 2, step, {}, 3);
    }
  });
}

// Five micro-batches on four ranks: the first takes two, and all hold the mean over five.
TEST_P(OnEveryWire, SharesOfMicroBatchesMayBeUneven) {
  run_as_threads(4, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1}, .wire = wire(), .micro_batches = 5});
    Stream compute;
    for (int step = 0; step < 3; ++step) {
      if (comm.rank() == 0) {
        reducer.begin_step(Exchange::no_sync);
        backward(reducer, compute, step, 0);
        reducer.finish_step(compute);
      }
      reducer.begin_step();
      backward(reducer, compute, step, comm.rank() + 1);
      reducer.finish_step(compute);
      compute.synchronize();
      for (int parameter = 0; parameter < layout.parameters(); ++parameter)
        expect_mean_of(reducer, parameter, step, {0, 1, 2, 3, 4}, 5);
    }
  });
}

TEST(MicroBatches, AreSharedOutAsEvenlyAsTheyGo) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.micro_batches = 5});
    test::expect_error(
        ErrorKind::usage,
        {"1 micro-step(s) of this rank for 5 micro-batches on 2 ranks, of which each takes 2 or 3"},
        [&] { reducer.begin_step(); });
  });
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"-1 micro-batches of a step"},
                       [&] { GradientReducer(comm, layout, {.micro_batches = -1}); });
    test::expect_error(ErrorKind::usage, {"4 micro-batches of a step, and hook tree of 8 micro-batches"},
                       [&] { GradientReducer(comm, layout, {.hook = tree_hook(8), .micro_batches = 4}); });
    test::expect_error(ErrorKind::usage, {"4 micro-batches of a step with uneven batches"}, [&] {
      GradientReducer(comm, layout, {.uneven = Uneven::mean_of_all, .micro_batches = 4});
    });
  });
}

TEST_P(OnEveryWire, WhatEarlierMicroStepsAddedOfAnUnusedParameterStays) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout,
                            {.buckets = BucketBytes{1}, .wire = wire(), .unused = Unused::find});
    Stream compute;
    for (int step = 0; step < 2; ++step) {
      reducer.begin_step(Exchange::no_sync);
      backward(reducer, compute, step, comm.rank(), [](int parameter) { return parameter == 1; });
      reducer.finish_step(compute);
      reducer.begin_step();
      backward(reducer, compute, step, comm.rank(), [](int parameter) { return parameter == 3; });
      reducer.finish_step(compute);
      compute.synchronize();
      expect_mean_of(reducer, 1, step, {0, 1}, 4);
      expect_mean_of(reducer, 3, step, {0, 1}, 4);
      for (int parameter = 0; parameter < 4; ++parameter) EXPECT_TRUE(reducer.used(ParamId{parameter}));
    }
  });
}

TEST_P(OnEveryWire, AStaticGraphIsLearntOnceAndHeldTo) {
  run_as_threads(2, [](Communicator comm) {
    const auto skips = [&](int parameter) { return parameter == 3 && comm.rank() == 0; };
    GradientReducer reducer(comm, layout,
                            {.buckets = BucketBytes{1}, .wire = wire(), .unused = Unused::as_in_first_step});
    Stream compute;
    for (int step = 0; step < 3; ++step) {
      reducer.begin_step();
      backward(reducer, compute, step, comm.rank(), skips);
      reducer.finish_step(compute);
      compute.synchronize();
      expect_mean_of(reducer, 3, step, {1}, 2);
      expect_mean_of(reducer, 0, step, {0, 1}, 2);
    }
    reducer.begin_step();
    const auto train = [&] {
      backward(reducer, compute, 3, comm.rank());
      reducer.finish_step(compute);
      compute.synchronize();
    };
    if (comm.rank() == 0) {
      test::expect_error(ErrorKind::usage, {"not static", "head", "no gradient in the first step"}, train);
    } else {
      test::expect_error(ErrorKind::usage, {"rank 0 failed", "not static", "head"}, train);
    }
  });
}

TEST(ReducerOptions, AParameterThatIsMissingInAStaticGraphIsNamedOnEveryRank) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1}, .unused = Unused::as_in_first_step});
    Stream compute;
    reducer.begin_step();
    backward(reducer, compute, 0, comm.rank());
    reducer.finish_step(compute);
    compute.synchronize();
    reducer.begin_step();
    const auto train = [&] {
      backward(reducer, compute, 1, comm.rank(),
               [&](int parameter) { return parameter == 1 && comm.rank() == 1; });
      reducer.finish_step(compute);
      compute.synchronize();
    };
    test::expect_error(ErrorKind::usage, {"not static", "weight", "had gradients in the first step"}, train);
  });
}

TEST(ReducerOptions, AMissingGradientIsNamedOnEveryRankLongBeforeTheDeadline) {
  for (const auto& wire : wires()) {
    run_as_threads(3, [&](Communicator comm) {
      GradientReducer reducer(
          comm, layout,
          {.buckets = BucketBytes{1},
           .wire = wire ? std::optional(wire->is_inline() ? Stream() : Stream::queued()) : std::nullopt});
      Stream compute;
      reducer.begin_step();
      const auto train = [&] {
        backward(reducer, compute, 0, comm.rank(),
                 [&](int parameter) { return parameter == 2 && comm.rank() == 1; });
        reducer.finish_step(compute);
        compute.synchronize(Deadline::in(30s));
      };
      if (comm.rank() == 1) {
        test::expect_error(ErrorKind::usage, {"rank 1: finish_step #1", "1 of 4", "bias"}, train);
      } else {
        test::expect_error(ErrorKind::usage, {"rank 1 failed", "never marked ready", "bias"}, train);
      }
    });
  }
}

TEST_P(OnEveryWire, RanksThatRunOutOfBatchesTakePartUntilNoRankHasAny) {
  for (const Uneven uneven : {Uneven::mean_of_all, Uneven::mean_of_the_rest}) {
    run_as_threads(3, [uneven](Communicator comm) {
      GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1}, .wire = wire(), .uneven = uneven});
      Stream compute;
      const auto batches = [](int rank) { return 8 - 3 * rank; };
      int step = 0;
      const auto check = [&] {
        std::vector<int> having;
        for (int rank = 0; rank < comm.size(); ++rank) {
          if (step < batches(rank)) having.push_back(rank);
        }
        const float divisor = uneven == Uneven::mean_of_all ? 3.0F : static_cast<float>(having.size());
        for (int parameter = 0; parameter < layout.parameters(); ++parameter) {
          const auto gradient = reducer.gradient(ParamId{parameter}).as<float>();
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            float sum = 0;
            for (const int rank : having) sum += value(step, rank, parameter, i);
            ASSERT_FLOAT_EQ(gradient[i], sum / divisor) << "step " << step;
          }
        }
        ++step;
      };
      while (step < batches(comm.rank())) {
        reducer.begin_step();
        backward(reducer, compute, step, comm.rank());
        reducer.finish_step(compute);
        compute.synchronize();
        check();
      }
      reducer.join(compute, check);
      EXPECT_EQ(step, 8);
      // Another epoch, of one step: the end of the first epoch did not count as a step.
      step = 0;
      reducer.begin_step();
      backward(reducer, compute, step, comm.rank());
      reducer.finish_step(compute);
      compute.synchronize();
      check();
      reducer.join(compute);
      const StepHistory history = reducer.account();
      EXPECT_EQ(history.steps.size(), 9U);
      for (const StepAccount& one : history.steps) {
        EXPECT_GT(one.seconds, 0);
        EXPECT_LT(one.seconds, 60);
      }
    });
  }
  test::expect_error(ErrorKind::usage, {"equally many batches", "ReducerOptions::uneven"}, [] {
    GradientReducer reducer(self(), layout);
    reducer.join(Stream());
  });
}

TEST_P(OnEveryWire, GradientsAreReducedInTheDataTypeThatIsAskedFor) {
  const ParamLayout half(DataType::bf16, {{"a", 500}, {"b", 77}});
  run_as_threads(4, [&](Communicator comm) {
    for (const Means means : {Means::everywhere, Means::sharded}) {
      GradientReducer reducer(
          comm, half,
          {.buckets = BucketBytes{256}, .hook = cast_hook(DataType::f32), .means = means, .wire = wire()});
      Stream compute;
      const auto number = [](int rank, std::size_t i) {
        return BFloat16(1.0F + 0.01F * static_cast<float>(i) + 3.7F * static_cast<float>(rank));
      };
      reducer.begin_step();
      for (const int parameter : {1, 0}) {
        const auto out = reducer.gradient(ParamId{parameter}).as<BFloat16>();
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = number(comm.rank(), i);
        reducer.mark_ready(ParamId{parameter}, compute);
      }
      std::vector<bool> checked(static_cast<std::size_t>(half.size()));
      reducer.finish_step(compute);
      compute.synchronize();
      for (const Bucket& bucket : reducer.plan().buckets()) {
        const View mine = reducer.means(bucket);
        const auto first = static_cast<std::int64_t>((mine.bytes() - reducer.gradients().bytes()) / 2);
        for (std::int64_t i = 0; i < mine.count(); ++i) {
          for (int parameter = 0; parameter < 2; ++parameter) {
            const std::int64_t at = first + i - half.offset(ParamId{parameter});
            if (at < 0 || at >= half.count(ParamId{parameter})) continue;
            float sum = 0;
            for (int rank = 0; rank < 4; ++rank)
              sum += static_cast<float>(number(rank, static_cast<std::size_t>(at)));
            ASSERT_EQ(mine.as<BFloat16>()[static_cast<std::size_t>(i)].bits, BFloat16(sum / 4).bits);
          }
        }
      }
    }
  });
  test::expect_error(ErrorKind::usage, {"reduced as i32"},
                     [] { GradientReducer(self(), layout, {.hook = cast_hook(DataType::i32)}); });
}

TEST(ReducerOptions, HooksChain) {
  run_as_threads(2, [](Communicator comm) {
    const auto hook = cast_hook(DataType::f64, cast_hook(DataType::bf16));
    EXPECT_EQ(hook->name(), "all_reduce of bf16 of f64");
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{512}, .hook = hook});
    Stream compute;
    reducer.begin_step();
    backward(reducer, compute, 1, comm.rank());
    reducer.finish_step(compute);
    compute.synchronize();
    const auto gradient = reducer.gradient(ParamId{1}).as<float>();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto rounded = [&](int rank) { return static_cast<float>(BFloat16(value(1, rank, 1, i))); };
      ASSERT_EQ(gradient[i], static_cast<float>(BFloat16((rounded(0) + rounded(1)) / 2)));
    }
  });
}

/// Means after some steps of eight micro-batches, by one binary tree over all of them.
std::vector<float> with_deterministic_tree(int ranks, std::size_t bucket_bytes,
                                           const std::optional<Stream>& wire) {
  std::vector<float> result;
  std::mutex mutex;
  run_as_threads(ranks, [&](Communicator comm) {
    GradientReducer reducer(
        comm, layout,
        {.buckets = BucketBytes{bucket_bytes},
         .hook = tree_hook(8),
         .wire = wire ? std::optional(wire->is_inline() ? Stream() : Stream::queued()) : wire});
    Stream compute;
    const int here = 8 / ranks;
    for (int step = 0; step < 3; ++step) {
      for (int part = 0; part < here; ++part) {
        reducer.begin_step(part + 1 < here ? Exchange::no_sync : Exchange::now);
        EXPECT_FALSE(reducer.accumulating());
        backward(reducer, compute, step, comm.rank() * here + part);
        reducer.finish_step(compute);
      }
      compute.synchronize();
    }
    const std::lock_guard lock(mutex);
    for (int parameter = 0; comm.rank() == ranks - 1 && parameter < layout.parameters(); ++parameter)
      std::ranges::copy(reducer.gradient(ParamId{parameter}).as<float>(), std::back_inserter(result));
  });
  return result;
}

TEST(ReducerOptions, DeterministicTreeGivesTheSameBitsOnAnyNumberOfRanks) {
  std::vector<float> expected;
  for (int parameter = 0; parameter < layout.parameters(); ++parameter) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(layout.count(ParamId{parameter})); ++i) {
      const auto pair = [&](int first) {
        return value(2, first, parameter, i) + value(2, first + 1, parameter, i);
      };
      expected.push_back(((pair(0) + pair(2)) + (pair(4) + pair(6))) / 8);
    }
  }
  for (const int ranks : {1, 2, 4, 8}) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{2000}, std::size_t{1} << 20}) {
      for (const auto& wire : wires())
        EXPECT_EQ(with_deterministic_tree(ranks, bucket_bytes, wire), expected)
            << ranks << " ranks, " << bucket_bytes;
    }
  }
}

TEST(ReducerOptions, DeterministicTreeThatRanksCannotShareIsRefused) {
  run_as_threads(3, [](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"a tree of 8 micro-batches for 3 ranks", "powers of two"},
                       [&] { GradientReducer(comm, layout, {.hook = tree_hook(8)}); });
  });
  test::expect_error(ErrorKind::usage, {"a tree of 6 micro-batches for 1 ranks"},
                     [] { GradientReducer(self(), layout, {.hook = tree_hook(6)}); });
  test::expect_error(ErrorKind::usage, {"micro-batch 1 of this rank's 8", "now"}, [] {
    GradientReducer reducer(self(), layout, {.hook = tree_hook(8)});
    reducer.begin_step();
  });
  test::expect_error(ErrorKind::usage, {"a tree of -1 micro-batches"}, [] { tree_hook(-1); });
}

TEST_P(OnEveryWire, BadValuesAreCountedBeforeTheyAreSummedAndNamed) {
  std::vector<std::string> logged;
  std::mutex mutex;
  log::set_sink([&](log::Level, std::string_view line) {
    const std::lock_guard lock(mutex);
    logged.emplace_back(line);
  });
  run_as_threads(3, [](Communicator comm) {
    GradientReducer reducer(comm, layout,
                            {.buckets = BucketBytes{700}, .wire = wire(), .count_bad_values = true});
    Stream compute;
    for (int step = 0; step < 4; ++step) {
      reducer.begin_step();
      for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
        produce(reducer, parameter, step, comm.rank());
        const auto out = reducer.gradient(ParamId{parameter}).as<float>();
        if (step == 2 && comm.rank() == 1 && parameter == 2) out[6] = NAN;
        if (step == 2 && comm.rank() == 1 && parameter == 0) out[999] = -INFINITY;
        if (step == 3 && comm.rank() == 2 && parameter == 3) out[0] = out[1] = INFINITY;
        reducer.mark_ready(ParamId{parameter}, compute);
      }
      reducer.finish_step(compute);
      const auto& bad = reducer.bad_values();
      ASSERT_EQ(bad.size(), step < 2 ? 0U : 1U);
      if (step < 2) continue;
      EXPECT_EQ(bad[0].rank, step == 2 ? 1 : 2);
      EXPECT_EQ(bad[0].step, static_cast<std::uint64_t>(step + 1));
      EXPECT_EQ(bad[0].first, ParamId{step == 2 ? 0 : 3});
      EXPECT_EQ(bad[0].nans, step == 2 ? 1 : 0);
      EXPECT_EQ(bad[0].infinities, step == 2 ? 1 : 2);
    }
    compute.synchronize();
  });
  log::set_sink(nullptr);
  std::ranges::sort(logged);
  ASSERT_EQ(logged.size(), 2U);
  EXPECT_EQ(logged[0], "rank 1: 1 NaN and 1 infinite values in its gradients of step 3, first in embedding");
  EXPECT_EQ(logged[1], "rank 2: 0 NaN and 2 infinite values in its gradients of step 4, first in head");
}

// Each rank knows of all ranks' before any of them finishes the step.
TEST_P(OnEveryWire, BadValuesMayBeSharedBeforeAStepIsFinished) {
  run_as_threads(3, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{700}, .wire = wire()});
    reducer.count_bad_values();
    Stream compute;
    const auto refused = [&](const std::string& why) {
      test::expect_error(ErrorKind::usage, {"share_bad_values() " + why},
                         [&] { reducer.share_bad_values(); });
    };
    refused("outside a step");
    for (int step = 0; step < 4; ++step) {
      reducer.begin_step();
      for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
        produce(reducer, parameter, step, comm.rank());
        if (step == 2 && comm.rank() == 1 && parameter == 2)
          reducer.gradient(ParamId{parameter}).as<float>()[6] = NAN;
        if (parameter == 0) refused("before every parameter is marked");
        reducer.mark_ready(ParamId{parameter}, compute);
      }
      reducer.share_bad_values();
      refused("twice in one step");
      reducer.poll();
      for (const bool finished : {false, true}) {
        if (finished) reducer.finish_step(compute);
        const auto& bad = reducer.bad_values();
        ASSERT_EQ(bad.size(), step == 2 ? 1U : 0U) << step << ", finished " << finished;
        if (step != 2) continue;
        EXPECT_EQ(bad[0].rank, 1);
        EXPECT_EQ(bad[0].first, ParamId{2});
        EXPECT_EQ(bad[0].nans, 1);
      }
    }
    compute.synchronize();
  });
}

/// Squares of the means of one step, for all blocks.
std::vector<double> squares(std::size_t bucket_bytes, Means means, const std::optional<Stream>& wire) {
  std::vector<double> result;
  std::mutex mutex;
  run_as_threads(2, [&](Communicator comm) {
    GradientReducer reducer(
        comm, layout,
        {.buckets = BucketBytes{bucket_bytes},
         .means = means,
         .wire = wire ? std::optional(wire->is_inline() ? Stream() : Stream::queued()) : wire,
         .norm_block = 192});
    Stream compute;
    for (int step = 0; step < 3; ++step) {
      reducer.begin_step();
      backward(reducer, compute, step, comm.rank());
      reducer.finish_step(compute);
      compute.synchronize();
    }
    std::vector<double> all(static_cast<std::size_t>(reducer.squares().count()));
    std::ranges::copy(reducer.squares().as<const double>(), all.begin());
    if (means == Means::sharded) comm.all_reduce(View(std::span(all)), ReduceOp::sum, compute).wait();
    const std::lock_guard lock(mutex);
    result = all;
  });
  return result;
}

TEST(ReducerOptions, SquaresOfBlocksDependOnNothingButTheMeans) {
  std::vector<double> flat(static_cast<std::size_t>(layout.size()));
  for (int parameter = 0; parameter < layout.parameters(); ++parameter) {
    for (std::int64_t i = 0; i < layout.count(ParamId{parameter}); ++i) {
      const auto at = [&](int rank) { return value(2, rank, parameter, static_cast<std::size_t>(i)); };
      flat[static_cast<std::size_t>(layout.offset(ParamId{parameter}) + i)] =
          static_cast<double>((at(0) + at(1)) / 2);
    }
  }
  const auto whole = squares(1 << 20, Means::everywhere, Stream());
  ASSERT_EQ(whole.size(), (flat.size() + 191) / 192);
  for (std::size_t block = 0; block < whole.size(); ++block) {
    double sum = 0;
    for (std::size_t i = block * 192; i < std::min(flat.size(), (block + 1) * 192); ++i)
      sum += flat[i] * flat[i];
    EXPECT_NEAR(whole[block], sum, 1e-12 * sum);
  }
  for (const std::size_t bucket_bytes : {1, 300, 2000}) {
    for (const auto& wire : wires()) {
      EXPECT_EQ(squares(bucket_bytes, Means::everywhere, wire), whole);
      EXPECT_EQ(squares(bucket_bytes, Means::sharded, wire), whole);
    }
  }
  test::expect_error(ErrorKind::usage, {"norm_block 100"},
                     [] { GradientReducer(self(), layout, {.norm_block = 100}); });
}

TEST(ReducerOptions, AGradientThatLiesElsewhereIsCopiedOrAdded) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1}});
    Stream compute;
    std::vector<std::vector<float>> gradients;
    for (int part = 0; part < 2; ++part) {
      reducer.begin_step(part == 0 ? Exchange::no_sync : Exchange::now);
      for (int parameter = 3; parameter >= 0; --parameter) {
        auto& gradient = gradients.emplace_back(static_cast<std::size_t>(layout.count(ParamId{parameter})));
        for (std::size_t i = 0; i < gradient.size(); ++i)
          gradient[i] = value(part, comm.rank(), parameter, i);
        reducer.mark_ready(ParamId{parameter}, ConstView(std::span<const float>(gradient)), compute);
      }
      reducer.finish_step(compute);
    }
    compute.synchronize();
    const auto mean = reducer.gradient(ParamId{1}).as<float>();
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const auto of_rank = [&](int rank) { return value(0, rank, 1, i) + value(1, rank, 1, i); };
      ASSERT_EQ(mean[i], (of_rank(0) + of_rank(1)) / 2 / 2);
    }
  });
}

TEST(ReducerOptions, AGradientOfAnotherShapeIsNamedOnEveryRank) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1}});
    Stream compute;
    reducer.begin_step();
    backward(reducer, compute, 0, comm.rank(), [](int parameter) { return parameter == 1; });
    std::vector<float> gradient(comm.rank() == 0 ? 333 : 332);
    const auto train = [&] {
      reducer.mark_ready(ParamId{1}, ConstView(std::span<const float>(gradient)), compute);
      reducer.finish_step(compute);
      compute.synchronize(Deadline::in(30s));
    };
    test::expect_error(ErrorKind::usage, {"gradient of weight has 332 f32, the parameter 333 f32"}, train);
  });
}

// An operation takes the slot of the one 32 before it, which must be complete by then, also if it is on a
// stream of the reducer's own.
TEST_P(OnEveryWire, NothingIsLeftThatWouldHoldUpLaterOperations) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout,
                            {.buckets = BucketBytes{1},
                             .wire = wire(),
                             .unused = Unused::find,
                             .uneven = Uneven::mean_of_all,
                             .count_bad_values = true,
                             .norm_block = 64});
    Stream compute;
    for (int step = 0; step < 3; ++step) {
      reducer.begin_step();
      backward(reducer, compute, step, comm.rank());
      reducer.finish_step(compute);
      compute.synchronize();
      for (int i = 0; i < 80; ++i) comm.barrier(compute).wait(Deadline::in(10s));
    }
    reducer.join(compute);
  });
}

TEST(ReducerOptions, PayloadIsTheFormulas) {
  const ParamLayout model(DataType::f32, {{"a", 100'000}, {"b", 100}, {"c", 30'000}, {"d", 77}});
  for (const int ranks : {2, 3, 4}) {
    run_as_threads(ranks, [&](Communicator comm) {
      for (const Means means : {Means::everywhere, Means::sharded}) {
        GradientReducer reducer(comm, model, {.buckets = BucketBytes{1000}, .means = means});
        Stream compute;
        const std::uint64_t before = comm.wire_bytes();
        for (int step = 0; step < 10; ++step) {
          reducer.begin_step();
          for (int parameter = 3; parameter >= 0; --parameter)
            reducer.mark_ready(ParamId{parameter}, compute);
          reducer.finish_step(compute);
          compute.synchronize();
        }
        const double trips = means == Means::everywhere ? 2 : 1;  // to the rank that sums, and back
        const double formula = trips * (ranks - 1) / ranks * 130'177 * sizeof(float) * 10;
        const auto sent = static_cast<double>(comm.wire_bytes() - before);
        EXPECT_LE(sent / formula, 1.01) << ranks;
        EXPECT_GE(sent / formula, 1) << ranks;
      }
    });
  }
}

// Backward goes as that of a decoder which was registered before its encoder.
TEST(ReducerOptions, BucketsLeaveInTheOrderInWhichBackwardWasSeenToGo) {
  const ParamLayout model(
      DataType::f32,
      {{"decoder.in", 400'000}, {"decoder.out", 400'000}, {"encoder.in", 400'000}, {"encoder.out", 400'000}});
  run_as_threads(2, [&](Communicator comm) {
    GradientReducer reducer(comm, model, {.wire = Stream::queued()});
    Stream compute;
    for (int step = 0; step < 8; ++step) {
      reducer.begin_step();
      for (const int parameter : {1, 0, 3, 2}) {
        std::this_thread::sleep_for(4ms);
        std::ranges::fill(reducer.gradient(ParamId{parameter}).as<float>(),
                          static_cast<float>(step + parameter + comm.rank()));
        reducer.mark_ready(ParamId{parameter}, compute);
      }
      reducer.finish_step(compute);
      compute.synchronize();
      for (int parameter = 0; parameter < 4; ++parameter) {
        const auto mean = reducer.gradient(ParamId{parameter}).as<float>();
        ASSERT_TRUE(std::ranges::count(mean, static_cast<float>(step + parameter) + 0.5F) ==
                    std::ssize(mean));
      }
    }
    EXPECT_TRUE(reducer.profile());
    EXPECT_EQ(reducer.plan().buckets().front().params.front(), ParamId{1});
    EXPECT_EQ(reducer.plan().buckets().back().params.back(), ParamId{2});
  });
}

TEST(ReducerOptions, WhatWasNotAskedForIsRefusedWithTheOptionThatAsks) {
  GradientReducer reducer(self(), layout);
  test::expect_error(ErrorKind::usage, {"count_bad_values"}, [&] { (void)reducer.bad_values(); });
  test::expect_error(ErrorKind::usage, {"norm_block"}, [&] { (void)reducer.squares(); });
  test::expect_error(ErrorKind::usage, {"tree of 8 micro-batches with uneven batches"}, [] {
    GradientReducer(self(), layout, {.hook = tree_hook(8), .uneven = Uneven::mean_of_all});
  });
  reducer.begin_step();
  test::expect_error(ErrorKind::usage, {"4 of 4", "never marked ready"}, [&] { (void)reducer.account(); });
}

TEST(ReducerOptions, RanksWithDifferentOptionsAreNamedWithBoth) {
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(ErrorKind::mismatch, {"rank 0 hook all_reduce", "rank 1 hook all_reduce of bf16"},
                       [&] {
                         ReducerOptions options;
                         if (comm.rank() == 1) options.hook = cast_hook(DataType::bf16);
                         GradientReducer(comm, layout, options);
                       });
  });
}

TEST_P(OnEveryWire, AnAccountNamesTheSlowestRank) {
  std::atomic<int> waiting = 0;
  run_as_threads(3, [&](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1}, .wire = wire()});
    Stream compute;
    EXPECT_TRUE(reducer.account().steps.empty());
    for (int step = 0; step < 5; ++step) {
      reducer.begin_step();
      if (comm.rank() == 1 && step == 3) {
        while (waiting < 2) std::this_thread::yield();
        std::this_thread::sleep_for(200ms);
      }
      backward(reducer, compute, step, comm.rank());
      if (step == 3) ++waiting;
      reducer.finish_step(compute);
      compute.synchronize();
    }
    const StepHistory history = reducer.account();
    const std::vector<StepAccount>& account = history.steps;
    ASSERT_EQ(history.last.size(), 3U);
    EXPECT_EQ(history.last[2].step, 5U);
    EXPECT_EQ(history.last[0].buckets.size(), reducer.plan().buckets().size());
    ASSERT_EQ(account.size(), 5U);
    for (std::size_t i = 0; i < 5; ++i) {
      const StepAccount& one = account[i];
      EXPECT_EQ(one.step, i + 1);
      EXPECT_GT(one.seconds, 0);
      EXPECT_LE(one.overlap_seconds, one.link_seconds);
      EXPECT_LE(one.slowest_seconds, one.exposed_seconds + 1e-9);
    }
    if (comm.rank() != 1) {
      EXPECT_EQ(account[3].slowest, 1);
      EXPECT_GT(account[3].slowest_seconds, 0.1);
      EXPECT_LT(account[3].link_seconds, account[3].seconds - 0.1);  // waiting is not traffic
    }
    EXPECT_TRUE(reducer.account().steps.empty());
  });
}

}  // namespace
}  // namespace weft
