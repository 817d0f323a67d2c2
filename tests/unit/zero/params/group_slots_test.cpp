#include "zero/params/group_slots.hpp"

#include <gtest/gtest.h>

namespace weft::detail {
namespace {

/// Uses groups one after the other. @returns how many groups were not prefetched when they were used
struct Trainer {
  explicit Trainer(int count) : slots(count) {}

  int use(const std::vector<int>& order) {
    int late = 0;
    for (const int group : order) {
      const auto held = slots.hold(group);
      if (!held->is_gathered) ++late, ++fetched;
      prefetch();
      slots.release(group);
      prefetch();
    }
    return late;
  }
  void prefetch() {
    while (slots.next_prefetch()) ++fetched;
  }
  void update() {
    slots.invalidate();
    prefetch();
  }

  GroupSlots slots;
  int fetched = 0;
};

const std::vector<int> step{0, 1, 2, 3, 3, 2, 1, 0};

TEST(GroupSlots, FetchesWhatIsAskedForInTheFirstStep) {
  Trainer trainer(2);
  EXPECT_EQ(trainer.use(step), 6) << "3 is still there, and 2 beside it";
}

TEST(GroupSlots, FetchesAheadOnceItKnowsTheOrder) {
  for (int slots = 2; slots <= 4; ++slots) {
    Trainer trainer(slots);
    trainer.use(step);
    trainer.update();
    trainer.fetched = 0;
    EXPECT_EQ(trainer.use(step), 0) << slots;
  }
}

TEST(GroupSlots, OneSlotFetchesNothingAheadOfWhatIsHeld) {
  Trainer trainer(1);
  trainer.use(step);
  trainer.update();
  EXPECT_EQ(trainer.fetched, 8)
      << "seven when they are used (3 twice in a row is one), and a prefetch of 0 for the next step";
}

TEST(GroupSlots, WhatIsNeededLastGoesFirst) {
  Trainer trainer(3);
  trainer.use(step);
  trainer.update();
  trainer.fetched = 0;
  trainer.use(step);
  // 0 1 2 are gathered; 3 evicts 0, which is needed last, and 2 and 1 are still there on the way back.
  EXPECT_EQ(trainer.fetched, 2);
}

TEST(GroupSlots, AnotherOrderIsServed) {
  Trainer trainer(2);
  trainer.use(step);
  trainer.update();
  trainer.use({3, 1, 2, 0, 0, 1});
  trainer.update();
  EXPECT_EQ(trainer.use({3, 1, 2, 0, 0, 1}), 0);
}

TEST(GroupSlots, EvaluationBetweenStepsIsServed) {
  Trainer trainer(2);
  for (int i = 0; i < 3; ++i) {
    trainer.use(step);
    trainer.update();
    trainer.use({0, 1, 2, 3});
  }
  EXPECT_TRUE(trainer.slots.held().empty());
}

TEST(GroupSlots, SaysWhenAllSlotsAreHeld) {
  GroupSlots slots(2);
  EXPECT_FALSE(slots.hold(5)->is_gathered);
  EXPECT_FALSE(slots.hold(6)->is_gathered);
  EXPECT_EQ(slots.hold(7), std::nullopt);
  EXPECT_EQ(slots.held(), (std::vector{5, 6}));
  slots.release(5);
  EXPECT_TRUE(slots.hold(7).has_value());
  EXPECT_EQ(slots.held(), (std::vector{7, 6}));
}

}  // namespace
}  // namespace weft::detail
