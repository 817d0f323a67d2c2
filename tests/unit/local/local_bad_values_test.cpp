// NaN and infinite values in the differences of ranks.

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "local_twin.hpp"
#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"

namespace weft {
namespace {

using test::expect_error;
using test::LocalTraining;

const std::vector<std::string> hooks =
    test::few_under_tsan(std::vector<std::string>{"", "int8", "powersgd:2"}, 2);

/// In the bias of rank 1, in the second outer step.
void spoil(const LocalTraining::Rank& rank, int step) {
  if (rank.comm.rank() != 1 || step != 5) return;
  rank.values[4810] = rank.values[4811] = std::numeric_limits<float>::quiet_NaN();
  rank.values[4839] = std::numeric_limits<float>::infinity();
}

TEST(LocalBadValues, AreNamedOnEveryRankAndNothingIsChanged) {
  for (const std::string& hook : hooks) {
    LocalTraining one{.ranks = 2, .hook = hook, .last_step = 6};
    one.after_inner = [&](const LocalTraining::Rank& rank, int step) {
      spoil(rank, step);
      if (step != 5) return;
      const std::vector<float> mine = rank.values;
      expect_error(
          ErrorKind::usage,
          {"outer step 2", "rank 1 has 2 NaN and 1 infinite values in its difference, first in bias"},
          [&] { rank.local.outer_step(rank.compute); });
      EXPECT_EQ(std::memcmp(mine.data(), rank.values.data(), mine.size() * sizeof(float)), 0);
      EXPECT_EQ(rank.local.inner_steps(), 2);  // step() of this one is yet to come
      EXPECT_EQ(rank.local.account().outer_steps, 1);
      if (rank.comm.rank() == 1) rank.values[4810] = rank.values[4811] = rank.values[4839] = 0.5F;
    };
    // With finite values in their place the same training goes on: what was refused has left no trace.
    LocalTraining mended{.ranks = 2, .hook = hook, .last_step = 6};
    mended.after_inner = [&](const LocalTraining::Rank& rank, int step) {
      if (step == 5 && rank.comm.rank() == 1)
        rank.values[4810] = rank.values[4811] = rank.values[4839] = 0.5F;
    };
    EXPECT_EQ(one.run(), mended.run()) << hook;
  }
}

TEST(LocalBadValues, MaySkipAnOuterStep) {
  for (const bool queued : {false, true}) {
    for (const OuterOptimizer& outer : {OuterOptimizer(OuterNesterov{}), OuterOptimizer(OuterAverage{})}) {
      LocalTraining one{.ranks = 4, .outer = outer, .bad = BadDifference::skip_step, .queued = queued};
      one.after_inner = spoil;
      one.after_step = [](const LocalTraining::Rank&, int step, OuterStep did) {
        if (step % 3 != 2) return;
        EXPECT_EQ(did, step == 5 ? OuterStep::skipped : OuterStep::taken);
      };
      one.at_end = [](const LocalTraining::Rank& rank) {
        EXPECT_EQ(rank.local.account().skipped, 1);
        EXPECT_EQ(rank.local.account().outer_steps, 2);
      };
      EXPECT_EQ(one.run(), one.twin(1));
    }
  }
}

TEST(LocalBadValues, OnOneRankAreFoundToo) {
  LocalTraining one{.ranks = 1, .every = 1, .outer = OuterAverage{}, .last_step = 1};
  one.after_inner = [](const LocalTraining::Rank& rank, int) {
    rank.values[4840] = -std::numeric_limits<float>::infinity();
    expect_error(ErrorKind::usage, {"rank 0 has 0 NaN and 1 infinite values", "first in gain"},
                 [&] { rank.local.step(rank.compute); });
    rank.values[4840] = 0;
  };
  one.run();
}

// Each difference is a number, and their sum is beyond f32.
TEST(LocalBadValues, OfTheMeanAloneAreNamedAsSuch) {
  LocalTraining one{.ranks = 2, .every = 1, .last_step = 1};
  one.after_inner = [](const LocalTraining::Rank& rank, int) {
    rank.values[3] = 3e38F;
    expect_error(ErrorKind::usage, {"outer step 1: no rank's difference", "mean is beyond the range"},
                 [&] { rank.local.step(rank.compute); });
    rank.values[3] = 0;
  };
  one.run();
}

}  // namespace
}  // namespace weft
