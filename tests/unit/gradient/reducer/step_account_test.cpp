// The account of a step against a slow, obvious one that looks at every moment.

#include "weft/gradient/step_account.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

/// Moments are whole numbers; each lasts one second.
StepAccount by_looking_at_every_moment(int rank, const std::vector<StepSeen>& ranks, bool in_order) {
  const StepSeen& own = ranks[static_cast<std::size_t>(rank)];
  StepAccount account{.step = own.step};
  account.exposed_seconds = own.carried;
  double waits_and_busy = 0;
  std::vector<double> for_rank(ranks.size());
  for (const BucketSeen& bucket : own.buckets)
    account.seconds = std::max(account.seconds, bucket.wait_end - own.begin);
  for (double now = own.begin; now < own.begin + account.seconds + 100; ++now) {
    bool is_busy = false;
    bool is_waiting = false;
    for (std::size_t i = 0; i < own.buckets.size(); ++i) {
      std::size_t last = 0;
      for (std::size_t other = 1; other < ranks.size(); ++other) {
        if (ranks[other].buckets[i].ready > ranks[last].buckets[i].ready) last = other;
      }
      const bool all_brought = ranks[last].buckets[i].ready <= now;
      const bool all_move = all_brought && std::ranges::all_of(ranks, [&](const StepSeen& one) {
                              return one.buckets[i].begun <= now;
                            });
      const bool has_turn = !in_order || i == 0 || own.buckets[i - 1].ended <= now;
      is_busy = is_busy || (all_move && has_turn && now < own.buckets[i].ended);
      if (now < own.buckets[i].wait_begin || now >= own.buckets[i].wait_end) continue;
      is_waiting = true;
      if (!all_brought && last != static_cast<std::size_t>(rank)) ++for_rank[last];
    }
    account.exposed_seconds += is_waiting ? 1 : 0;
    account.link_seconds += is_busy ? 1 : 0;
    account.overlap_seconds += is_busy && !is_waiting ? 1 : 0;
    waits_and_busy += is_busy && is_waiting ? 1 : 0;
  }
  if (own.is_inline) {  // bytes move only where the compute thread carries them, or waits
    account.link_seconds = std::min(account.link_seconds, own.carried + waits_and_busy);
    account.overlap_seconds = 0;
  }
  for (std::size_t other = 0; other < for_rank.size(); ++other) {
    account.slowest_seconds += for_rank[other];
    if (for_rank[other] > 0 &&
        (!account.slowest || for_rank[other] > for_rank[static_cast<std::size_t>(*account.slowest)]))
      account.slowest = static_cast<int>(other);
  }
  for (std::size_t i = 0; i < own.buckets.size(); ++i) {
    double behind = ranks.size() == 1 ? 0 : 1e9;  // this rank, behind the one that it is least behind
    for (const StepSeen& one : ranks) {
      for (const StepSeen& other : ranks)
        account.skew_seconds = std::max(account.skew_seconds, one.buckets[i].ready - other.buckets[i].ready);
      if (&one != &own) behind = std::min(behind, own.buckets[i].ready - one.buckets[i].ready);
    }
    account.late_seconds = std::max(account.late_seconds, behind);
  }
  return account;
}

// A bucket of 1 MiB is posted before a long layer, at the end of which it is carried: 200 s apart, .5 s of copying.
TEST(StepAccount, AnInlineWireIsIdleWhileNoOneCarriesIt) {
  const StepSeen rank{.step = 1,
                      .begin = 0,
                      .carried = 0.5,
                      .buckets = {{0, 200, 200, 200}, {200, 200.25, 200, 200.25}},
                      .is_inline = true};
  const StepAccount account = account_of(0, std::vector{rank, rank}, false);
  EXPECT_EQ(account.link_seconds, 0.75);
  EXPECT_EQ(account.overlap_seconds, 0);
  EXPECT_EQ(account.exposed_seconds, 0.75);
}

TEST(StepAccount, IsWhatLookingAtEveryMomentGives) {
  std::mt19937 random(1);
  const auto up_to = [&](int most) {
    return static_cast<double>(random() % static_cast<unsigned>(most + 1));
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const bool in_order = trial % 2 == 0;
    std::vector<StepSeen> ranks(1 + random() % 4);
    const std::size_t buckets = 1 + random() % 5;
    for (StepSeen& rank : ranks) {
      rank.step = 7;
      rank.begin = up_to(3);
      rank.carried = up_to(2);
      rank.is_inline = trial % 3 == 0;
      double ready = rank.begin;
      for (std::size_t i = 0; i < buckets; ++i) {
        ready += up_to(5);
        rank.buckets.push_back({.ready = ready, .begun = ready + up_to(3)});
      }
    }
    for (StepSeen& rank : ranks) {
      double ended = rank.begin;
      double waited = rank.buckets.back().ready;
      for (std::size_t i = 0; i < buckets; ++i) {
        double brought = 0;
        for (const StepSeen& other : ranks)
          brought = std::max({brought, other.buckets[i].ready, other.buckets[i].begun});
        BucketSeen& bucket = rank.buckets[i];
        bucket.ended = std::max(brought, in_order ? ended : 0) + up_to(4);
        ended = bucket.ended;
        bucket.wait_begin = waited + up_to(2);
        bucket.wait_end = waited = std::max(bucket.wait_begin, bucket.ended);
      }
    }
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
      const StepAccount expected = by_looking_at_every_moment(rank, ranks, in_order);
      const StepAccount account = account_of(rank, ranks, in_order);
      ASSERT_EQ(account.step, 7U);
      ASSERT_EQ(account.seconds, expected.seconds) << trial;
      ASSERT_EQ(account.exposed_seconds, expected.exposed_seconds) << trial;
      ASSERT_EQ(account.link_seconds, expected.link_seconds) << trial;
      ASSERT_EQ(account.overlap_seconds, expected.overlap_seconds) << trial;
      ASSERT_EQ(account.slowest_seconds, expected.slowest_seconds) << trial;
      ASSERT_EQ(account.slowest, expected.slowest) << trial;
      ASSERT_EQ(account.skew_seconds, expected.skew_seconds) << trial;
      ASSERT_EQ(account.late_seconds, expected.late_seconds) << trial;
    }
  }
}

// One bucket of 4 s. This rank has it at 2, the other at 7: 5 s of nothing on the link, which PyTorch's
// backward_compute_comm_overlap_time would count.
TEST(StepAccount, AnIdleLinkIsNoOverlap) {
  const std::vector<StepSeen> ranks{{.step = 1, .begin = 0, .buckets = {{2, 11, 9, 11}}},
                                    {.step = 1, .begin = 0, .buckets = {{7, 11, 7, 11}}}};
  const StepAccount early = account_of(0, ranks, true);
  EXPECT_EQ(early.link_seconds, 4);
  EXPECT_EQ(early.overlap_seconds, 2);
  EXPECT_EQ(early.exposed_seconds, 2);
  EXPECT_EQ(early.slowest_seconds, 0);
  const StepAccount late = account_of(1, ranks, true);
  EXPECT_EQ(late.overlap_seconds, 0);
  EXPECT_EQ(late.exposed_seconds, 4);
  EXPECT_FALSE(late.slowest);
  EXPECT_EQ(early.skew_seconds, 5);
  EXPECT_EQ(late.skew_seconds, 5);
  EXPECT_EQ(early.late_seconds, 0);
  EXPECT_EQ(late.late_seconds, 5);
}

}  // namespace
}  // namespace weft
