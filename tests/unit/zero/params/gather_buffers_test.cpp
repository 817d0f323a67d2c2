#include "zero/params/gather_buffers.hpp"

#include <gtest/gtest.h>

namespace weft::detail {
namespace {

/// Uses units one after the other. @returns how many units were not prefetched when they were used
struct Trainer {
  explicit Trainer(int count) : buffers(count) {}

  int use(const std::vector<int>& order) {
    int late = 0;
    for (const int unit : order) {
      const auto held = buffers.hold(unit);
      if (!held->is_gathered) ++late, ++fetched;
      prefetch();
      buffers.release(unit);
      prefetch();
    }
    return late;
  }
  void prefetch() {
    while (buffers.next_prefetch()) ++fetched;
  }
  void update() {
    buffers.invalidate();
    prefetch();
  }

  GatherBuffers buffers;
  int fetched = 0;
};

const std::vector<int> step{0, 1, 2, 3, 3, 2, 1, 0};

TEST(GatherBuffers, FetchesWhatIsAskedForInTheFirstStep) {
  Trainer trainer(2);
  EXPECT_EQ(trainer.use(step), 6) << "3 is still there, and 2 beside it";
}

TEST(GatherBuffers, FetchesAheadOnceItKnowsTheOrder) {
  for (int buffers = 2; buffers <= 4; ++buffers) {
    Trainer trainer(buffers);
    trainer.use(step);
    trainer.update();
    trainer.fetched = 0;
    EXPECT_EQ(trainer.use(step), 0) << buffers;
  }
}

TEST(GatherBuffers, OneBufferFetchesNothingAheadOfWhatIsHeld) {
  Trainer trainer(1);
  trainer.use(step);
  trainer.update();
  EXPECT_EQ(trainer.fetched, 8)
      << "seven when they are used (3 twice in a row is one), and a prefetch of 0 for the next step";
}

TEST(GatherBuffers, WhatIsNeededLastGoesFirst) {
  Trainer trainer(3);
  trainer.use(step);
  trainer.update();
  trainer.fetched = 0;
  trainer.use(step);
  // 0 1 2 are gathered; 3 evicts 0, which is needed last, and 2 and 1 are still there on the way back.
  EXPECT_EQ(trainer.fetched, 2);
}

TEST(GatherBuffers, AnotherOrderIsServed) {
  Trainer trainer(2);
  trainer.use(step);
  trainer.update();
  trainer.use({3, 1, 2, 0, 0, 1});
  trainer.update();
  EXPECT_EQ(trainer.use({3, 1, 2, 0, 0, 1}), 0);
}

TEST(GatherBuffers, EvaluationBetweenStepsIsServed) {
  Trainer trainer(2);
  for (int i = 0; i < 3; ++i) {
    trainer.use(step);
    trainer.update();
    trainer.use({0, 1, 2, 3});
  }
  EXPECT_TRUE(trainer.buffers.held().empty());
}

TEST(GatherBuffers, SaysWhenAllBuffersAreHeld) {
  GatherBuffers buffers(2);
  EXPECT_FALSE(buffers.hold(5)->is_gathered);
  EXPECT_FALSE(buffers.hold(6)->is_gathered);
  EXPECT_EQ(buffers.hold(7), std::nullopt);
  EXPECT_EQ(buffers.held(), (std::vector{5, 6}));
  buffers.release(5);
  EXPECT_TRUE(buffers.hold(7).has_value());
  EXPECT_EQ(buffers.held(), (std::vector{7, 6}));
}

}  // namespace
}  // namespace weft::detail
