// Outer steps over ranks that are threads, against one loop over all ranks.

#include "weft/local/local_steps.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>
#include <utility>

#include "local_twin.hpp"
#include "support/draw.hpp"
#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"
#include "weft/compression/hook_named.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft {
namespace {

using test::expect_error;
using test::LocalTraining;

using Ranks = std::vector<std::vector<float>>;

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    all += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / all);
}

TEST(LocalSteps, ParametersAreBitwiseThoseOfOneLoopOverAllRanks) {
  for (const int ranks : test::few_under_tsan(std::vector{2, 4, 1}, 2)) {
    for (const OuterOptimizer& outer : {OuterOptimizer(OuterNesterov{}), OuterOptimizer(OuterAverage{})}) {
      for (const bool queued : {false, true}) {
        for (const int every : {1, 3}) {  // the last steps of 11 are inner ones
          const LocalTraining one{.ranks = ranks, .every = every, .outer = outer, .queued = queued};
          EXPECT_EQ(one.run(), one.twin()) << ranks << " ranks, every " << every << ", queued " << queued;
        }
      }
    }
  }
}

TEST(LocalSteps, RanksDifferBetweenOuterStepsAndAreAlikeAfterThem) {
  LocalTraining one{.ranks = 2};
  std::array<std::vector<float>, 2> now;
  one.after_step = [&](const LocalTraining::Rank& rank, int step, OuterStep did) {
    now[static_cast<std::size_t>(rank.comm.rank())] = rank.values;
    Communicator comm = rank.comm;
    comm.barrier(Stream()).wait();
    EXPECT_EQ(did, (step + 1) % 3 == 0 ? OuterStep::taken : OuterStep::none);
    EXPECT_EQ(now[0] == now[1], did == OuterStep::taken);
    EXPECT_EQ(rank.local.inner_steps(), (step + 1) % 3);
    comm.barrier(Stream()).wait();
  };
  one.run();
}

// What compression loses is small beside what training moves, all ranks lose the same, and fewer bytes are sent. Differences
// have two ranks here, so that PowerSGD loses little, too.
TEST(LocalSteps, HooksSendLessAndLeaveAllRanksAlike) {
  struct Case {
    std::string hook;
    OuterOptimizer outer;
    double error;
  };
  const std::vector<Case> cases{{"int8", OuterNesterov{}, 2e-2},
                                {"powersgd:4", OuterNesterov{}, 1e-3},
                                {"powersgd:4", OuterAverage{}, 1e-3},
                                {"fp16", OuterNesterov{}, 2e-3},
                                {"bf16", OuterAverage{}, 2e-3}};
  for (const auto& [hook, outer, error] : test::few_under_tsan(cases, 2)) {
    for (const int ranks : test::few_under_tsan(std::vector{2, 4}, 1)) {
      LocalTraining plain{.ranks = ranks, .outer = outer, .last_step = 12};
      std::uint64_t bytes = 0, fewer = 0;
      plain.at_end = [&](const auto& rank) {
        if (rank.comm.rank() == 0) bytes = rank.local.account().bytes_last;
      };
      const Ranks exact = plain.run();
      LocalTraining coded = plain;
      coded.hook = hook;
      coded.at_end = [&](const auto& rank) {
        if (rank.comm.rank() == 0) fewer = rank.local.account().bytes_last;
      };
      const Ranks values = coded.run();
      for (const std::vector<float>& one : values) EXPECT_EQ(one, values[0]) << hook;
      EXPECT_NE(values, exact) << hook;
      EXPECT_LT(distance(values[0], exact[0]), error) << hook << ", " << ranks << " ranks";
      EXPECT_LT(fewer, bytes) << hook << ", " << ranks << " ranks";
    }
  }
}

/// Data parallelism with SGD: the same gradients through a reducer.
std::vector<float> data_parallel(int ranks, int steps, float rate,
                                 const std::function<float(int rank, int step, std::size_t i)>& gradient) {
  std::vector<float> result;
  run_as_threads(ranks, [&](const Communicator& comm) {
    std::vector<float> values = test::initial_local_values();
    for (float& one : values) one = std::round(one * 8);
    const auto parameters = test::local_parameters(values);
    GradientReducer reducer(comm, ParamLayout::of(parameters));
    Stream compute;
    for (int step = 0; step < steps; ++step) {
      reducer.begin_step();
      std::size_t at = values.size();
      for (int p = 2; p >= 0; --p) {
        const auto to = reducer.gradient(ParamId{p}).as<float>();
        at -= to.size();
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = gradient(comm.rank(), step, at + i);
        reducer.mark_ready(ParamId{p}, compute);
      }
      reducer.finish_step(compute);
      compute.synchronize();
      at = 0;
      for (int p = 0; p < 3; ++p) {
        for (const float mean : reducer.gradient(ParamId{p}).as<float>()) {
          const volatile float move = rate * mean;
          values[at++] -= move;
        }
      }
    }
    if (comm.rank() == 0) result = values;
  });
  return result;
}
/// LocalSteps with every = 1, the same SGD and OuterAverage.
std::vector<float> local_every_step(int ranks, int steps, float rate,
                                    const std::function<float(int rank, int step, std::size_t i)>& gradient) {
  std::vector<float> result;
  run_as_threads(ranks, [&](const Communicator& comm) {
    std::vector<float> values = test::initial_local_values();
    for (float& one : values) one = std::round(one * 8);
    LocalSteps local(comm, test::local_parameters(values), {.every = 1, .outer = OuterAverage{}});
    Stream compute;
    for (int step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const volatile float move = rate * gradient(comm.rank(), step, i);
        values[i] -= move;
      }
      EXPECT_EQ(local.step(compute), OuterStep::taken);
      compute.synchronize();
    }
    if (comm.rank() == 0) result = values;
  });
  return result;
}

TEST(LocalSteps, EveryStepIsDataParallelismBitwiseWhereNothingRounds) {
  const auto gradient = [](int rank, int step, std::size_t i) {
    return static_cast<float>(std::round(8 * test::normal(static_cast<std::uint64_t>(rank + 100 * step), i)));
  };
  for (const int ranks : {1, 2, 4})
    EXPECT_EQ(local_every_step(ranks, 8, 0.25F, gradient), data_parallel(ranks, 8, 0.25F, gradient));
}

// A step rounds each rank's parameters, and the new ones: half a unit in the last place each; data parallelism rounds once. All
// else rounds what is smaller.
TEST(LocalSteps, EveryStepIsDataParallelismWithinRoundingElsewhere) {
  const auto gradient = [](int rank, int step, std::size_t i) {
    return static_cast<float>(test::normal(static_cast<std::uint64_t>(rank + 100 * step), i));
  };
  constexpr int steps = 8;
  for (const int ranks : {1, 2, 4}) {
    const auto local = local_every_step(ranks, steps, 0.01F, gradient);
    const auto parallel = data_parallel(ranks, steps, 0.01F, gradient);
    bool differs = false;
    for (std::size_t i = 0; i < local.size(); ++i) {
      const float unit = std::nextafter(std::abs(parallel[i]) + 1, INFINITY) - (std::abs(parallel[i]) + 1);
      EXPECT_LE(std::abs(local[i] - parallel[i]), 2 * steps * unit) << i;
      differs = differs || local[i] != parallel[i];
    }
    EXPECT_EQ(differs, ranks > 1) << ranks << " ranks";
  }
}

TEST(LocalSteps, OnOneRankTheAverageChangesNoBit) {
  std::vector<float> alone = test::initial_local_values();
  for (int step = 0; step < 11; ++step) test::inner_step(alone, 0, step);
  for (const char* const hook : {"", "int8"}) {
    const LocalTraining one{.ranks = 1, .outer = OuterAverage{}, .hook = hook};
    EXPECT_EQ(one.run()[0], alone) << hook;
  }
}

TEST(LocalSteps, AnOuterStepMayBeTakenEarly) {
  LocalTraining one{.ranks = 2, .every = 100, .last_step = 6};
  one.after_step = [](const LocalTraining::Rank& rank, int step, OuterStep did) {
    EXPECT_EQ(did, OuterStep::none);
    if (step % 3 != 2) return;
    EXPECT_EQ(rank.local.outer_step(rank.compute), OuterStep::taken);
    EXPECT_EQ(rank.local.outer_step(rank.compute), OuterStep::none);
    EXPECT_EQ(rank.local.inner_steps(), 0);
  };
  LocalTraining usual = one;
  usual.every = 3;
  EXPECT_EQ(one.run(), usual.twin());
}

TEST(LocalSteps, OnlyOuterStepsSend) {
  LocalTraining one{.ranks = 4, .last_step = 8};
  std::uint64_t step_of_data_parallelism = 0;
  run_as_threads(4, [&](const Communicator& comm) {
    std::vector<float> values = test::initial_local_values();
    GradientReducer reducer(comm, ParamLayout::of(test::local_parameters(values)));
    const std::uint64_t before = comm.wire_bytes();
    Stream compute;
    reducer.begin_step();
    for (int p = 2; p >= 0; --p) reducer.mark_ready(ParamId{p}, compute);
    reducer.finish_step(compute);
    compute.synchronize();
    if (comm.rank() == 0) step_of_data_parallelism = comm.wire_bytes() - before;
  });
  std::vector<std::uint64_t> sent(4);
  one.at_start = [&](const auto& rank) {
    sent[static_cast<std::size_t>(rank.comm.rank())] = rank.comm.wire_bytes();
  };
  one.after_step = [&](const LocalTraining::Rank& rank, int, OuterStep did) {
    std::uint64_t& before = sent[static_cast<std::size_t>(rank.comm.rank())];
    const std::uint64_t more = rank.comm.wire_bytes() - std::exchange(before, rank.comm.wire_bytes());
    if (did == OuterStep::none) {
      EXPECT_EQ(more, 0);
    } else {
      EXPECT_EQ(more, rank.local.account().bytes_last);
      // what finds NaN is 24 bytes a rank
      EXPECT_GE(more, step_of_data_parallelism);
      EXPECT_LE(more, step_of_data_parallelism + 4 * 24);
    }
  };
  one.at_end = [](const auto& rank) {
    const LocalStepsAccount account = rank.local.account();
    EXPECT_EQ(account.inner_steps, 8);
    EXPECT_EQ(account.outer_steps, 2);
    EXPECT_EQ(account.skipped, 0);
    EXPECT_EQ(account.bytes_sent, 2 * account.bytes_last);
    EXPECT_GT(account.outer_step_seconds, 0);
    EXPECT_GE(account.exposed_seconds, 0);
    EXPECT_GE(rank.local.held_bytes(), std::int64_t{3 * 4 * test::local_values});
  };
  one.run();
}

TEST(LocalSteps, RanksThatDisagreeHearWhoAndWhat) {
  struct Case {
    std::function<void(int rank, LocalStepsOptions&)> change;
    std::initializer_list<std::string> words;
  };
  const Case cases[] = {
      {[](int rank, LocalStepsOptions& one) { one.every = rank == 1 ? 7 : 5; },
       {"different LocalStepsOptions", "rank 0 every 5", "rank 1 every 7"}},
      {[](int rank, LocalStepsOptions& one) {
         one.outer = OuterNesterov{rank == 2 ? 0.5 : 0.7, 0.9};
       },
       {"different LocalStepsOptions", "rank 0 every 5, nesterov with rate 0.7", "rank 2", "rate 0.5"}},
      {[](int rank, LocalStepsOptions& one) {
         if (rank == 2) one.outer = OuterAverage{};
       },
       {"different LocalStepsOptions", "rank 0 every 5, nesterov", "rank 2 every 5, average"}},
      {[](int rank, LocalStepsOptions& one) { one.hook = rank == 1 ? hook_named("int8", 0) : nullptr; },
       {"different LocalStepsOptions", "rank 0", "hook all_reduce", "rank 1"}},
      {[](int rank, LocalStepsOptions& one) {
         one.bad = rank == 1 ? BadDifference::skip_step : BadDifference::refuse;
       },
       {"different LocalStepsOptions", "refuses", "rank 1", "skips"}},
  };
  for (const Case& one : cases) {
    run_as_threads(3, [&](const Communicator& comm) {
      std::vector<float> values = test::initial_local_values();
      LocalStepsOptions options{.every = 5};
      one.change(comm.rank(), options);
      expect_error(ErrorKind::mismatch, one.words,
                   [&] { LocalSteps(comm, test::local_parameters(values), options); });
    });
  }
}

TEST(LocalSteps, RanksWithDifferentParametersOrValuesHearOfIt) {
  run_as_threads(3, [](const Communicator& comm) {
    std::vector<float> values(comm.rank() == 2 ? 11 : 10);
    const ParamLayout layout(DataType::f32, {{"w", std::ssize(values)}});
    expect_error(ErrorKind::mismatch, {"parameter 0 is w, 10 of f32 on rank 0", "w, 11 of f32 on rank 2"},
                 [&] { LocalSteps(comm, layout, {View(std::span(values))}, {.every = 2}); });
  });
  run_as_threads(3, [](const Communicator& comm) {
    std::vector<float> values(10, comm.rank() == 1 ? 1.F : 2.F);
    const ParamLayout layout(DataType::f32, {{"w", 10}});
    expect_error(ErrorKind::mismatch, {"different values", "w", "rank 1"},
                 [&] { LocalSteps(comm, layout, {View(std::span(values))}, {.every = 2}); });
  });
  run_as_threads(3, [](const Communicator& comm) {
    std::vector<float> values(10, static_cast<float>(comm.rank() + 5));
    const ParamLayout layout(DataType::f32, {{"w", 10}});
    LocalSteps local(comm, layout, {View(std::span(values))},
                     {.every = 2, .initial = InitialValues::from_rank_0});
    EXPECT_EQ(values, std::vector<float>(10, 5));
  });
}

TEST(LocalSteps, WhatMakesNoSenseIsRefused) {
  run_as_threads(1, [](const Communicator& comm) {
    std::vector<float> values(10);
    std::vector<BFloat16> halves(10);
    const ParamLayout layout(DataType::f32, {{"w", 10}});
    const std::vector<View> views{View(std::span(values))};
    expect_error(ErrorKind::usage, {"every 0 inner steps"}, [&] { LocalSteps(comm, layout, views, {}); });
    expect_error(ErrorKind::usage, {"outer momentum of 1"}, [&] {
      LocalSteps(comm, layout, views, {.every = 1, .outer = OuterNesterov{.momentum = 1}});
    });
    expect_error(ErrorKind::usage, {"0 views of 1 parameters"},
                 [&] { LocalSteps(comm, layout, std::vector<View>(), {.every = 1}); });
    expect_error(ErrorKind::usage, {"parameter w is 9 f32", "expected 10 f32"},
                 [&] { LocalSteps(comm, layout, {views[0].slice(0, 9)}, {.every = 1}); });
    expect_error(ErrorKind::usage, {"parameters of type bf16", "masters"}, [&] {
      LocalSteps(comm, ParamLayout(DataType::bf16, {{"w", 10}}), {View(std::span(halves))}, {.every = 1});
    });
  });
}

TEST(LocalSteps, ARankThatTakesNoOuterStepInTimeIsNamed) {
  std::atomic<bool> told = false;
  run_as_threads(2, [&](Communicator comm) {
    std::vector<float> values = test::initial_local_values();
    LocalSteps local(comm, test::local_parameters(values), {.every = 2});
    local.step(Stream());
    if (comm.rank() == 1) {  // one inner step behind
      while (!told) std::this_thread::yield();
      return;
    }
    comm.timeout(std::chrono::milliseconds(200));
    expect_error(ErrorKind::timeout, {"rank 1"}, [&] { local.step(Stream()); });
    told = true;
  });
}

TEST(LocalSteps, ARankThatLeavesBeforeAnOuterStepIsNamed) {
  run_as_threads(2, [](Communicator comm) {
    std::vector<float> values = test::initial_local_values();
    LocalSteps local(comm, test::local_parameters(values), {.every = 1});
    if (comm.rank() == 1) return;
    expect_error(ErrorKind::peer_lost, {"rank 1"}, [&] { local.step(Stream()); });
  });
}

}  // namespace
}  // namespace weft
