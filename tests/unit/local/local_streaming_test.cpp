// Fragments that are exchanged at different steps, and taken in later, against one loop over all ranks.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>

#include "local_twin.hpp"
#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"
#include "weft/compression/hook_named.hpp"

namespace weft {
namespace {

using test::expect_error;
using test::LocalTraining;

struct Streaming {
  int every, fragments, delay;
  double mixing;
  std::vector<int> given{};                             ///< LocalStepsOptions::fragment_of
  std::vector<int> fragment_of = std::vector{0, 0, 0};  ///< of the three parameters
};

// With a delay of every / fragments or more, several fragments are under way at once.
const std::vector<Streaming> kinds{
    {6, 2, 2, 0.5, {}, {0, 1, 1}},        {6, 3, 4, 0.25, {}, {0, 1, 2}},
    {6, 3, 0, 0, {}, {0, 1, 2}},          {4, 1, 3, 0.5},
    {4, 2, 1, 0, {}, {0, 1, 1}},          {6, 2, 5, 0.9, {1, 0, 1}, {1, 0, 1}},
    {4, 2, 0, 0.5, {}, {0, 1, 1}},        {3, 1, 0, 0},
    {2, 2, 1, 0.5, {0, 1, 0}, {0, 1, 0}},
};

LocalTraining training(const Streaming& kind, LocalTraining one) {
  one.every = kind.every;
  one.fragments = kind.fragments;
  one.delay = kind.delay;
  one.mixing = kind.mixing;
  one.fragment_of = kind.given;
  return one;
}

std::string named(const Streaming& kind) {
  return text("every ", kind.every, ", ", kind.fragments, " fragments, delay ", kind.delay, ", mixing ",
              kind.mixing);
}

TEST(LocalStreaming, ParametersAreBitwiseThoseOfOneLoopOverAllRanks) {
  for (const Streaming& kind : test::few_under_tsan(kinds, 2)) {
    for (const int ranks : test::few_under_tsan(std::vector{2, 4, 1}, 2)) {
      for (const OuterOptimizer& outer : {OuterOptimizer(OuterNesterov{}), OuterOptimizer(OuterAverage{})}) {
        for (const bool queued : {false, true}) {
          const LocalTraining one =
              training(kind, {.ranks = ranks, .outer = outer, .queued = queued, .last_step = 17});
          EXPECT_EQ(one.run(), one.streaming_twin(kind.fragment_of))
              << named(kind) << ", " << ranks << " ranks, queued " << queued;
        }
      }
    }
  }
}

TEST(LocalStreaming, OneFragmentWithoutDelayAndMixingIsWhatThereWasBefore) {
  const LocalTraining one{.ranks = 2};
  EXPECT_EQ(one.twin(), one.streaming_twin({0, 0, 0}));
}

// What a fragment does is what a LocalSteps of its parameters alone would do, compression and all.
TEST(LocalStreaming, EachFragmentIsALocalStepsOfItsOwn) {
  constexpr int every = 6, steps = 12;
  for (const std::string& hook :
       test::few_under_tsan(std::vector<std::string>{"int8", "powersgd:2", "fp16", "bf16", "int4", ""}, 2)) {
    for (const int ranks : test::few_under_tsan(std::vector{2, 4}, 1)) {
      const LocalTraining streaming{
          .ranks = ranks, .every = every, .hook = hook, .fragments = 2, .last_step = steps};
      std::vector<std::vector<float>> apart(static_cast<std::size_t>(ranks));
      run_as_threads(ranks, [&](const Communicator& comm) {
        std::vector<float>& values = apart[static_cast<std::size_t>(comm.rank())];
        values = test::initial_local_values();
        const auto all = test::local_parameters(values);
        LocalSteps first(comm, std::vector{all[0]},
                         {.every = 100, .hook = test::hook_of_fragment(hook, true)});
        LocalSteps second(comm, std::vector{all[1], all[2]},
                          {.every = 100, .hook = test::hook_of_fragment(hook, false)});
        const Stream compute;
        for (int step = 0; step < steps; ++step) {
          test::inner_step(values, comm.rank(), step);
          first.step(compute);
          second.step(compute);
          if ((step + 1) % every == every / 2) first.outer_step(compute);
          if ((step + 1) % every == 0) second.outer_step(compute);
        }
      });
      EXPECT_EQ(streaming.run(), apart) << hook << ", " << ranks << " ranks";
    }
  }
}

// Which thread carries the exchange, and when it ends, changes nothing.
TEST(LocalStreaming, HooksGiveTheSameBitsWithAndWithoutThreads) {
  for (const std::string& hook : test::few_under_tsan(
           std::vector<std::string>{"int8", "powersgd:2", "powersgd:4", "fp16", "bf16", "int4"}, 2)) {
    for (const Streaming& kind : {kinds[0], kinds[1]}) {
      for (const int ranks : test::few_under_tsan(std::vector{2, 4}, 1)) {
        LocalTraining one = training(kind, {.ranks = ranks, .hook = hook, .last_step = 17});
        const auto expected = one.run();
        one.queued = true;
        EXPECT_EQ(one.run(), expected) << hook << ", " << named(kind);
        EXPECT_NE(expected, one.streaming_twin(kind.fragment_of)) << hook << " has lost nothing";
      }
    }
  }
}

TEST(LocalStreaming, OneFragmentIsSentAtOnceAndTakenInLater) {
  LocalTraining one = training(kinds[0], {.ranks = 2, .last_step = 12});  // 6 steps, 2 fragments, delay 2
  std::array<std::uint64_t, 2> begin{}, sent{}, last{};
  one.at_start = [&](const auto& rank) {
    const auto me = static_cast<std::size_t>(rank.comm.rank());
    begin[me] = sent[me] = rank.comm.wire_bytes();
  };
  one.after_step = [&](const LocalTraining::Rank& rank, int step, OuterStep did) {
    const auto me = static_cast<std::size_t>(rank.comm.rank());
    const bool is_sent = (step + 1) % 3 == 0, is_taken = step + 1 >= 5 && (step + 1 - 5) % 3 == 0;
    EXPECT_EQ(did, is_taken ? OuterStep::taken : OuterStep::none) << step;
    const std::uint64_t more = rank.comm.wire_bytes() - std::exchange(sent[me], rank.comm.wire_bytes());
    if (is_sent) {
      EXPECT_GT(more, 0) << step;
      last[me] = more;
    } else {
      EXPECT_EQ(more, 0) << step;
    }
    const LocalStepsAccount account = rank.local.account();
    if (is_taken) {
      EXPECT_EQ(account.bytes_last, last[me]) << step;
      EXPECT_EQ(account.stale_last, 2);
    }
    EXPECT_EQ(rank.local.inner_steps(), step + 1);  // mixing keeps ranks apart
  };
  one.at_end = [&](const LocalTraining::Rank& rank) {
    LocalStepsAccount account = rank.local.account();
    EXPECT_EQ(account.inner_steps, 12);
    EXPECT_EQ(account.outer_steps, 3);  // sent after 3, 6 and 9; what was sent after 12 is under way
    EXPECT_EQ(account.stale_steps, 6);
    EXPECT_EQ(account.skipped, 0);
    EXPECT_GE(account.exposed_seconds, 0);
    EXPECT_GT(account.outer_step_seconds, 0);
    EXPECT_GE(rank.local.held_bytes(), std::int64_t{(3 * test::local_values + 4800) * sizeof(float)});
    EXPECT_EQ(rank.local.fragment_of(ParamId{0}), 0);
    EXPECT_EQ(rank.local.fragment_of(ParamId{2}), 1);
    expect_error(ErrorKind::usage, {}, [&] { (void)rank.local.fragment_of(ParamId{3}); });
    EXPECT_EQ(rank.local.outer_step(rank.compute), OuterStep::taken);
    account = rank.local.account();
    EXPECT_EQ(account.outer_steps, 6);  // the one under way, and one of each fragment
    EXPECT_EQ(account.stale_steps, 6);
    EXPECT_EQ(account.stale_last, 0);
    EXPECT_EQ(account.bytes_sent, rank.comm.wire_bytes() - begin[static_cast<std::size_t>(rank.comm.rank())]);
  };
  one.run();
}

TEST(LocalStreaming, AnOuterStepLeavesRanksAlike) {
  for (const Streaming& kind : kinds) {
    for (const int at : {1, 4, 5, 6, 7}) {
      LocalTraining one = training(kind, {.ranks = 2, .last_step = 13});
      std::array<std::vector<float>, 2> now;
      one.after_step = [&](const LocalTraining::Rank& rank, int step, OuterStep) {
        if (step != at) return;
        rank.local.outer_step(rank.compute);
        EXPECT_EQ(rank.local.inner_steps(), 0) << named(kind);
        now[static_cast<std::size_t>(rank.comm.rank())] = rank.values;
        Communicator comm = rank.comm;
        comm.barrier(Stream()).wait();
        EXPECT_EQ(now[0], now[1]) << named(kind) << " after " << at;
        EXPECT_EQ(rank.local.outer_step(rank.compute), OuterStep::none);
      };
      const auto values = one.run();
      if (kind.fragments > 1 || kind.mixing > 0) {
        EXPECT_NE(values[0], values[1]);
      }
    }
  }
}

// A rank that has sent goes on with its inner steps while another has not come to send, and waits where the mean is taken in.
TEST(LocalStreaming, ADelayedExchangeHoldsUpNobodyBeforeItIsTakenIn) {
  for (const bool queued : {false, true}) {
    std::atomic<int> steps_of_0 = 0;
    LocalTraining one = training({4, 1, 3, 0.5}, {.ranks = 2, .queued = queued, .last_step = 8});
    one.after_inner = [&](const LocalTraining::Rank& rank, int step) {
      if (rank.comm.rank() == 1 && step == 3) {
        while (steps_of_0 < 6) std::this_thread::yield();  // two steps beyond the sending one
      }
    };
    one.after_step = [&](const LocalTraining::Rank& rank, int step, OuterStep) {
      if (rank.comm.rank() == 0) steps_of_0 = step + 1;
    };
    EXPECT_EQ(one.run(), one.streaming_twin({0, 0, 0}));
  }
}

TEST(LocalStreaming, ARankThatDoesNotSendInTimeIsNamed) {
  std::atomic<bool> told = false;
  run_as_threads(2, [&](Communicator comm) {
    std::vector<float> values = test::initial_local_values();
    LocalSteps local(comm, test::local_parameters(values), {.every = 2, .fragments = 2, .delay = 1});
    if (comm.rank() == 1) {
      while (!told) std::this_thread::yield();
      return;
    }
    comm.timeout(std::chrono::milliseconds(200));
    EXPECT_EQ(local.step(Stream()), OuterStep::none);
    expect_error(ErrorKind::timeout, {"rank 1"}, [&] { local.step(Stream()); });
    told = true;
  });
}

// What is under way goes with the LocalSteps, also where an exception takes it.
TEST(LocalStreaming, MayGoWithAFragmentUnderWay) {
  for (const bool fails : {false, true}) {
    run_as_threads(2, [&](const Communicator& comm) {
      std::vector<float> values = test::initial_local_values();
      try {
        LocalSteps local(comm, test::local_parameters(values), {.every = 4, .fragments = 2, .delay = 1});
        for (int step = 0; step < 2; ++step) local.step(Stream());
        if (fails) throw std::runtime_error("of the trainer");
      } catch (const std::exception&) {  // of the trainer, or the other rank that has left
        EXPECT_TRUE(fails);
      }
    });
  }
}

TEST(LocalStreaming, RanksThatDisagreeHearWhoAndWhat) {
  struct Case {
    std::function<void(LocalStepsOptions&)> change;
    std::initializer_list<std::string> words;
  };
  const Case cases[] = {
      {[](LocalStepsOptions& one) { one.fragments = 3; },
       {"different LocalStepsOptions", "rank 0", "2 fragments", "rank 1", "3 fragments"}},
      {[](LocalStepsOptions& one) { one.delay = 2; },
       {"different LocalStepsOptions", "rank 0", "delay 1", "rank 1", "delay 2"}},
      {[](LocalStepsOptions& one) { one.mixing = 0.75; },
       {"different LocalStepsOptions", "rank 0", "mixing 0.5", "rank 1", "mixing 0.75"}},
      {[](LocalStepsOptions& one) { one.make_hook = [](int) { return hook_named("int8", 0); }; },
       {"different LocalStepsOptions", "rank 0", "hook all_reduce", "rank 1"}},
      {[](LocalStepsOptions& one) {
         one.fragment_of = {0, 1, 0};
       },
       {"different parameters", "weight", "rank 0", "in fragment 0", "rank 1"}},
  };
  for (const Case& one : cases) {
    run_as_threads(3, [&](const Communicator& comm) {
      std::vector<float> values = test::initial_local_values();
      LocalStepsOptions options{.every = 6, .fragments = 2, .delay = 1, .mixing = 0.5};
      if (comm.rank() == 1) one.change(options);
      expect_error(ErrorKind::mismatch, one.words,
                   [&] { LocalSteps(comm, test::local_parameters(values), options); });
    });
  }
}

TEST(LocalStreaming, OneHookForSeveralFragmentsIsRefused) {
  run_as_threads(1, [](const Communicator& comm) {
    std::vector<float> values = test::initial_local_values();
    const auto refused = [&](std::initializer_list<std::string> words, const LocalStepsOptions& options) {
      expect_error(ErrorKind::usage, words,
                   [&] { LocalSteps(comm, test::local_parameters(values), options); });
    };
    refused({"one hook (", "for 2 fragments", "make_hook"},
            {.every = 2, .fragments = 2, .hook = hook_named("int8", 0)});
    refused(
        {"with hook and with make_hook"},
        {.every = 2, .hook = hook_named("int8", 0), .make_hook = [](int) { return hook_named("int8", 0); }});
    const auto one = hook_named("int8", 0);
    refused({"gave one hook (", "for fragments 0 and 1"},
            {.every = 2, .fragments = 2, .make_hook = [&](int) { return one; }});
    refused({"4 fragments of 3 parameters"}, {.every = 4, .fragments = 4});
    refused({"2 fragments, each sent every 3 inner steps"}, {.every = 3, .fragments = 2});
  });
}

/// In the bias, which is in the second fragment, of rank 1, before that is sent after step 6.
void spoil_a_fragment(const LocalTraining::Rank& rank, int step) {
  if (rank.comm.rank() != 1 || step != 5) return;
  rank.values[4810] = rank.values[4811] = std::numeric_limits<float>::quiet_NaN();
  rank.values[4839] = std::numeric_limits<float>::infinity();
}

// The second fragment is sent after step 6 and would be taken in after step 8: all ranks hear of it then, and it is sent
// again with step 9.
TEST(LocalStreaming, BadValuesAreNamedWhereTheyWouldBeTakenIn) {
  for (const std::string& hook :
       test::few_under_tsan(std::vector<std::string>{"", "int8", "powersgd:2"}, 2)) {
    run_as_threads(2, [&](const Communicator& comm) {
      std::vector<float> values = test::initial_local_values();
      LocalStepsOptions options{.every = 6, .fragments = 2, .delay = 2, .mixing = 0.5};
      options.make_hook = [&](int fragment) { return test::hook_of_fragment(hook, fragment == 0); };
      LocalSteps local(comm, test::local_parameters(values), options);
      const Stream compute;
      for (int step = 0; step < 11; ++step) {
        test::inner_step(values, comm.rank(), step);
        spoil_a_fragment({comm, local, values, compute}, step);
        if (step == 7) {
          const std::vector<float> mine = values;
          expect_error(ErrorKind::usage,
                       {"outer step 2, fragment 1: rank 1 has 2 NaN and 1 infinite values in its difference, "
                        "first in bias"},
                       [&] { local.step(compute); });
          EXPECT_EQ(std::memcmp(mine.data(), values.data(), mine.size() * sizeof(float)), 0);
          EXPECT_EQ(local.account().outer_steps, 1);
          if (comm.rank() == 1) values[4810] = values[4811] = values[4839] = 0.5F;
          continue;
        }
        const OuterStep did = local.step(compute);
        // Fragment 0 after steps 3 and 9, fragment 1 once more after step 9.
        EXPECT_EQ(did, step == 4 || step == 10 ? OuterStep::taken : OuterStep::none) << hook << ", " << step;
      }
      EXPECT_EQ(local.account().outer_steps, 3) << hook;
      for (const float one : values) ASSERT_TRUE(std::isfinite(one)) << hook;
    });
  }
}

TEST(LocalStreaming, MaySkipAFragment) {
  for (const bool queued : {false, true}) {
    for (const OuterOptimizer& outer : {OuterOptimizer(OuterNesterov{}), OuterOptimizer(OuterAverage{})}) {
      LocalTraining one = training(
          kinds[0],
          {.ranks = 4, .outer = outer, .bad = BadDifference::skip_step, .queued = queued, .last_step = 16});
      one.after_inner = spoil_a_fragment;
      one.after_step = [](const LocalTraining::Rank&, int step, OuterStep did) {
        if (step == 7) {
          EXPECT_EQ(did, OuterStep::skipped);
        }
      };
      one.at_end = [](const LocalTraining::Rank& rank) {
        EXPECT_EQ(rank.local.account().skipped, 1);
        EXPECT_EQ(rank.local.account().outer_steps, 3);
      };
      EXPECT_EQ(one.run(), one.streaming_twin({0, 1, 1}, 1));
    }
  }
}

}  // namespace
}  // namespace weft
