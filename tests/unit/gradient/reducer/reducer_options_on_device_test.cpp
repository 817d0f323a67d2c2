// The options of a reducer over memory and streams of a device: the same steps run on ranks of the host and
// on ranks with a fake NCCL and a fake CUDA, and both must see the same bits.

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "support/expect_error.hpp"
#include "support/ranks_with_fakes.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/log.hpp"
#include "weft/gradient/gradient_reducer.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

const ParamLayout layout(DataType::f32, {{"embedding", 1000}, {"weight", 333}, {"bias", 7}, {"head", 64}});

float value(int step, int part, int parameter, std::size_t i) {
  return 0.1F + static_cast<float>(step) * 3.3F + static_cast<float>(part) * 1.7F +
         static_cast<float>(parameter) * 0.31F + static_cast<float>(i) * 0.0113F;
}

/// Runs work in the stream's order, on the host or on the fake device.
void run_on(const Stream& stream, const std::function<void()>& work) {
  if (stream.device().is_host()) return Stream(stream).run(work);
  Stream(stream).run([=, native = native_handle(stream)] { FakeCuda::enqueue(native, work); });
}

template <class T>
std::vector<T> on_host(ConstView view, const Stream& stream) {
  std::vector<T> result(static_cast<std::size_t>(view.count()));
  copy(View(std::span(result)), view, stream);
  Stream(stream).synchronize(Deadline::in(30s));
  return result;
}

/// A rank that trains and keeps the gradients that it sees.
struct Rank {
  using Skips = std::function<bool(int parameter)>;

  Communicator comm;
  Stream compute{comm.device()};
  std::vector<std::vector<float>> seen{};  // the gradients, step by step

  void produce(GradientReducer& reducer, int parameter, int step, int part) {
    const View out = reducer.gradient(ParamId{parameter});
    run_on(compute, [=, adds = reducer.accumulating()] {
      for (std::size_t i = 0; i < static_cast<std::size_t>(out.count()); ++i) {
        const float one = value(step, part, parameter, i);
        if (out.dtype() == DataType::bf16) {
          static_cast<BFloat16*>(out.data())[i] = BFloat16(one);
        } else {
          float& element = static_cast<float*>(out.data())[i];
          element = adds ? element + one : one;
        }
      }
    });
  }
  void backward(GradientReducer& reducer, int step, int part, const Skips& skips = nullptr) {
    for (int parameter = reducer.layout().parameters() - 1; parameter >= 0; --parameter) {
      if (skips && skips(parameter)) continue;
      produce(reducer, parameter, step, part);
      reducer.mark_ready(ParamId{parameter}, compute);
    }
  }
  void look(GradientReducer& reducer) { seen.push_back(on_host<float>(reducer.gradients(), compute)); }
  /// Overwrites one element after backward.
  void spoil(GradientReducer& reducer, int parameter, std::size_t i, float bad) {
    auto* out = static_cast<float*>(reducer.gradient(ParamId{parameter}).data());
    run_on(compute, [=] { out[i] = bad; });
  }
};

class ReducerOptionsOnDevice : public testing::Test {
 protected:
  using Script = std::function<void(Rank&)>;
  using Seen = std::vector<std::vector<std::vector<float>>>;  // by rank

  /// What every rank saw, on the host: the reference.
  static Seen on_the_host(int ranks, const Script& script) {
    Seen all(static_cast<std::size_t>(ranks));
    run_as_threads(ranks, [&](Communicator comm) { run(comm, script, all); });
    return all;
  }
  Seen on_devices(int ranks, const Script& script) {
    Seen all(static_cast<std::size_t>(ranks));
    run_with_fakes(nccl_, ranks, [&](Communicator comm) {
      EXPECT_EQ(comm.device(), Device::cuda(comm.rank()));
      run(comm, script, all);
    });
    return all;
  }
  void expect_the_same(int ranks, const Script& script) {
    const Seen expected = on_the_host(ranks, script);
    EXPECT_FALSE(expected.front().empty()) << "the script looks at nothing";
    EXPECT_EQ(on_devices(ranks, script), expected);
  }

  WithFakeCuda cuda_;
  FakeNcclRanks nccl_;

 private:
  static void run(Communicator comm, const Script& script, Seen& all) {
    const auto number = static_cast<std::size_t>(comm.rank());
    Rank rank{std::move(comm)};
    script(rank);
    all[number] = std::move(rank.seen);
  }
};

TEST_F(ReducerOptionsOnDevice, AnUnusedParameterIsZeroHereAndTheMeanStillComes) {
  for (const std::size_t bucket_bytes : {1U, 2000U}) {
    expect_the_same(3, [=](Rank& rank) {
      GradientReducer reducer(rank.comm, layout,
                              {.buckets = BucketBytes{bucket_bytes}, .unused = Unused::find});
      for (int step = 0; step < 3; ++step) {
        reducer.begin_step();
        // Only ranks 1 and 2 use the head; no rank uses the bias in step 1.
        rank.backward(reducer, step, rank.comm.rank(), [&](int parameter) {
          return (parameter == 3 && rank.comm.rank() == 0) || (parameter == 2 && step == 1);
        });
        reducer.finish_step(rank.compute);
        rank.look(reducer);
        EXPECT_TRUE(reducer.used(ParamId{3}));
        EXPECT_EQ(reducer.used(ParamId{2}), step != 1);
        const auto bias = on_host<float>(reducer.gradient(ParamId{2}), rank.compute);
        EXPECT_EQ(bias == std::vector<float>(7), step == 1);
      }
    });
  }
}

TEST_F(ReducerOptionsOnDevice, WhatEarlierMicroStepsAddedOfAnUnusedParameterStays) {
  expect_the_same(2, [](Rank& rank) {
    GradientReducer reducer(rank.comm, layout, {.buckets = BucketBytes{1}, .unused = Unused::find});
    for (int step = 0; step < 2; ++step) {
      reducer.begin_step(Exchange::no_sync);
      rank.backward(reducer, step, rank.comm.rank(), [](int parameter) { return parameter == 1; });
      reducer.finish_step(rank.compute);
      reducer.begin_step();
      rank.backward(reducer, step, rank.comm.rank(), [](int parameter) { return parameter == 3; });
      reducer.finish_step(rank.compute);
      rank.look(reducer);
    }
  });
}

TEST_F(ReducerOptionsOnDevice, BadValuesAreCountedBeforeTheyAreSummedAndNamed) {
  log::set_sink([](log::Level, std::string_view) {});
  const auto script = [](Rank& rank) {
    GradientReducer reducer(rank.comm, layout, {.buckets = BucketBytes{700}, .count_bad_values = true});
    for (int step = 0; step < 4; ++step) {
      reducer.begin_step();
      for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
        rank.produce(reducer, parameter, step, rank.comm.rank());
        if (step == 1 && rank.comm.rank() == 1 && parameter == 2) rank.spoil(reducer, 2, 6, NAN);
        if (step == 1 && rank.comm.rank() == 1 && parameter == 0) rank.spoil(reducer, 0, 999, -INFINITY);
        if (step == 2 && rank.comm.rank() == 2 && parameter == 3) rank.spoil(reducer, 3, 0, INFINITY);
        reducer.mark_ready(ParamId{parameter}, rank.compute);
      }
      reducer.finish_step(rank.compute);
      const auto& bad = reducer.bad_values();
      ASSERT_EQ(bad.size(), step == 1 || step == 2 ? 1U : 0U) << "step " << step;
      if (bad.empty()) continue;
      EXPECT_EQ(bad[0].rank, step);
      EXPECT_EQ(bad[0].step, static_cast<std::uint64_t>(step + 1));
      EXPECT_EQ(bad[0].first, ParamId{step == 1 ? 0 : 3});
      EXPECT_EQ(bad[0].nans, step == 1 ? 1 : 0);
      EXPECT_EQ(bad[0].infinities, 1);
    }
    rank.compute.synchronize(Deadline::in(30s));
  };
  on_the_host(3, script);
  on_devices(3, script);
  log::set_sink(nullptr);
}

TEST_F(ReducerOptionsOnDevice, SquaresOfBlocksDependOnNothingButTheMeans) {
  // The squares after two steps, all ranks' parts together.
  const auto squares = [](Rank& rank, std::size_t bucket_bytes, Means means) {
    GradientReducer reducer(rank.comm, layout,
                            {.buckets = BucketBytes{bucket_bytes}, .means = means, .norm_block = 192});
    EXPECT_EQ(reducer.squares().device(), rank.comm.device());
    for (int step = 0; step < 2; ++step) {
      reducer.begin_step();
      rank.backward(reducer, step, rank.comm.rank());
      reducer.finish_step(rank.compute);
    }
    auto all = on_host<double>(reducer.squares(), rank.compute);
    Stream stream;
    if (means == Means::sharded)
      rank.comm.all_reduce(View(std::span(all)), ReduceOp::sum, stream).wait(Deadline::in(30s));
    return all;
  };
  std::vector<double> expected;
  on_the_host(2, [&](Rank& rank) {
    const auto all = squares(rank, 1 << 20, Means::everywhere);
    if (rank.comm.rank() == 0) expected = all;
  });
  ASSERT_EQ(expected.size(), static_cast<std::size_t>((layout.size() + 191) / 192));
  for (const std::size_t bucket_bytes : {1U, 300U, 1U << 20U}) {
    for (const Means means : {Means::everywhere, Means::sharded})
      on_devices(2, [&](Rank& rank) { EXPECT_EQ(squares(rank, bucket_bytes, means), expected); });
  }
}

TEST_F(ReducerOptionsOnDevice, DeterministicTreeGivesTheBitsOfTheHost) {
  const auto script = [](Rank& rank) {
    const int here = 8 / rank.comm.size();
    GradientReducer reducer(rank.comm, layout, {.buckets = BucketBytes{2000}, .hook = tree_hook(8)});
    for (int step = 0; step < 3; ++step) {
      for (int part = 0; part < here; ++part) {
        reducer.begin_step(part + 1 < here ? Exchange::no_sync : Exchange::now);
        EXPECT_FALSE(reducer.accumulating());
        rank.backward(reducer, step, rank.comm.rank() * here + part);
        reducer.finish_step(rank.compute);
      }
      rank.look(reducer);
    }
  };
  const auto expected = on_the_host(1, script).front();
  for (const int ranks : {1, 2, 4}) {
    for (const auto& seen : on_devices(ranks, script)) EXPECT_EQ(seen, expected) << ranks << " ranks";
  }
}

TEST_F(ReducerOptionsOnDevice, GradientsAreReducedInTheDataTypeThatIsAskedFor) {
  const ParamLayout half(DataType::bf16, {{"a", 500}, {"b", 77}});
  for (const Means means : {Means::everywhere, Means::sharded}) {
    expect_the_same(3, [&](Rank& rank) {
      GradientReducer reducer(
          rank.comm, half, {.buckets = BucketBytes{256}, .hook = cast_hook(DataType::f32), .means = means});
      reducer.begin_step();
      rank.backward(reducer, 0, rank.comm.rank());
      reducer.finish_step(rank.compute);
      for (const Bucket& bucket : reducer.plan().buckets()) {
        auto& seen = rank.seen.emplace_back();
        const View mine = reducer.means(bucket);
        const auto first = static_cast<std::int64_t>((mine.bytes() - reducer.gradients().bytes()) / 2);
        const auto means_here = on_host<BFloat16>(mine, rank.compute);
        for (std::size_t i = 0; i < means_here.size(); ++i) {
          seen.push_back(static_cast<float>(means_here[i]));
          const std::int64_t at = first + static_cast<std::int64_t>(i);
          if (at >= half.count(ParamId{0})) continue;
          float sum = 0;
          for (int one = 0; one < 3; ++one)
            sum += static_cast<float>(BFloat16(value(0, one, 0, static_cast<std::size_t>(at))));
          ASSERT_EQ(means_here[i].bits, BFloat16(sum / 3).bits) << "rounded once";
        }
      }
    });
  }
}

TEST_F(ReducerOptionsOnDevice, RanksThatRunOutOfBatchesTakePartUntilNoRankHasAny) {
  for (const Uneven uneven : {Uneven::mean_of_all, Uneven::mean_of_the_rest}) {
    expect_the_same(3, [uneven](Rank& rank) {
      GradientReducer reducer(rank.comm, layout, {.buckets = BucketBytes{1}, .uneven = uneven});
      const auto batches = [](int one) { return 8 - 3 * one; };
      int step = 0;
      const auto check = [&] {
        rank.look(reducer);
        const auto gradient = on_host<float>(reducer.gradient(ParamId{2}), rank.compute);
        float sum = 0;
        int having = 0;
        for (int one = 0; one < 3 && step < batches(one); ++one, ++having) sum += value(step, one, 2, 6);
        EXPECT_FLOAT_EQ(gradient[6], sum / static_cast<float>(uneven == Uneven::mean_of_all ? 3 : having))
            << "step " << step;
        ++step;
      };
      while (step < batches(rank.comm.rank())) {
        reducer.begin_step();
        rank.backward(reducer, step, rank.comm.rank());
        reducer.finish_step(rank.compute);
        check();
      }
      reducer.join(rank.compute, check);
      EXPECT_EQ(step, 8);
    });
  }
}

TEST_F(ReducerOptionsOnDevice, AllOptionsTogether) {
  expect_the_same(2, [](Rank& rank) {
    GradientReducer reducer(rank.comm, layout,
                            {.buckets = BucketBytes{2000},
                             .hook = cast_hook(DataType::f64),
                             .unused = Unused::find,
                             .uneven = Uneven::mean_of_the_rest,
                             .count_bad_values = true,
                             .norm_block = 64});
    const auto look = [&] {
      rank.look(reducer);
      auto& seen = rank.seen.emplace_back();
      for (const double one : on_host<double>(reducer.squares(), rank.compute))
        seen.push_back(static_cast<float>(one));
      EXPECT_TRUE(reducer.bad_values().empty());
    };
    for (int step = 0; step < 2 + rank.comm.rank(); ++step) {
      reducer.begin_step(Exchange::no_sync);
      rank.backward(reducer, step, rank.comm.rank());
      reducer.finish_step(rank.compute);
      reducer.begin_step();
      rank.backward(reducer, step, rank.comm.rank() + 2, [](int parameter) { return parameter == 0; });
      reducer.finish_step(rank.compute);
      look();
    }
    reducer.join(rank.compute, look);
  });
}

// Each bucket was ready before it ended, and waited for after that, on one clock with the host's.
TEST_F(ReducerOptionsOnDevice, AccountsHaveTheDevicesTimes) {
  run_with_fakes(nccl_, 2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{1 << 10}});
    Rank rank{std::move(comm)};
    const auto seconds_of = [](auto at) {
      return std::chrono::duration<double>(at.time_since_epoch()).count();
    };
    const double begun = seconds_of(std::chrono::steady_clock::now());
    constexpr int steps = 5;
    for (int step = 0; step < steps; ++step) {
      reducer.begin_step();
      rank.backward(reducer, step, rank.comm.rank());
      reducer.finish_step(rank.compute);
    }
    const StepHistory history = reducer.account();
    const double took = seconds_of(std::chrono::steady_clock::now()) - begun;
    ASSERT_EQ(history.steps.size(), std::size_t{steps});
    double all = 0;
    for (const StepAccount& account : history.steps) {
      EXPECT_GT(account.seconds, 0);
      EXPECT_LE(account.link_seconds, account.seconds + 1e-3);  // ranks' clocks differ by less
      EXPECT_LE(account.exposed_seconds, account.seconds + 1e-6);
      all += account.seconds;
    }
    EXPECT_LE(all, took + 1e-3);
    for (const StepSeen& one : history.last) {
      for (const BucketSeen& bucket : one.buckets) {
        EXPECT_LE(bucket.ready, bucket.ended);
        EXPECT_LE(bucket.wait_begin, bucket.wait_end);
        EXPECT_LE(bucket.ended, bucket.wait_end + 1e-6);
      }
    }
    EXPECT_TRUE(reducer.account().steps.empty());  // they are asked for once
  });
}

TEST_F(ReducerOptionsOnDevice, BucketsArePlannedFromTheDevicesTimes) {
  run_with_fakes(nccl_, 2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {});
    Rank rank{std::move(comm)};
    for (int step = 0; step < 8; ++step) {
      EXPECT_EQ(reducer.profile().has_value(), step > 5) << "at step " << step;
      reducer.begin_step();
      rank.backward(reducer, step, rank.comm.rank());
      reducer.finish_step(rank.compute);
    }
    rank.compute.synchronize(Deadline::in(30s));
    ASSERT_TRUE(reducer.profile().has_value());
    const BackwardProfile& profile = *reducer.profile();
    EXPECT_GT(profile.link.bytes_per_second, 0);
    for (std::size_t i = 0; i + 1 < profile.ready_seconds.size(); ++i)  // backward goes from the last one
      EXPECT_GE(profile.ready_seconds[i], profile.ready_seconds[i + 1]) << "parameter " << i;
  });
}

}  // namespace
}  // namespace weft::test
