// What ranks of different nodes tell each other of their devices' operations, over a side channel and a transport that carry nothing else. Time is
// what a test says it is.

#include "collectives/network/engine/wire_status.hpp"

#include <gtest/gtest.h>

#include <map>

#include "collectives/network/engine/side_lanes.hpp"
#include "collectives/network/engine/wire.hpp"
#include "support/expect_error.hpp"
#include "support/fake_peers.hpp"
#include "support/fake_side_channel.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;
using test::FakePeers;
using test::FakeSideChannel;
using test::Mailbox;

constexpr int ranks = 3;

struct Rank {
  Rank(std::shared_ptr<Mailbox> mailbox, int rank)
      : channel(std::move(mailbox), rank),
        peers(std::make_shared<FakePeers>(rank, ranks)),
        wire({.all = peers, .rank = rank, .ranks = {0, 1, 2}}, 1s) {
    std::vector<bool> are_seen(ranks);
    are_seen[static_cast<std::size_t>(rank)] = true;
    status.emplace(channel, wire, std::move(are_seen));
  }
  FakeSideChannel channel;
  std::shared_ptr<FakePeers> peers;
  GroupWire wire;
  std::optional<WirePeerStatus> status;
};

Operation all_reduce(std::uint64_t number, std::int64_t count = 10) {
  return {.kind = Collective::all_reduce, .number = number, .count = count, .dtype = DataType::f32};
}

class WireStatus : public testing::Test {
 protected:
  Rank& rank(int number) {
    auto& one = ranks_[number];
    if (!one) one = std::make_unique<Rank>(mailbox_, number);
    return *one;
  }
  WirePeerStatus& status(int number) { return *rank(number).status; }
  void issue(int number, const Operation& operation) { status(number).issued(operation); }
  /// Each looks, twice, so that all have heard what all said.
  void look(bool is_active = true) {
    for (int turn = 0; turn < 2; ++turn) {
      for (int one = 0; one < ranks; ++one) status(one).tell(is_active, now);
    }
  }
  std::size_t said(int number) { return rank(number).channel.posted().size(); }
  void forge(int from, const std::string& word) { FakeSideChannel(mailbox_, from).post(word); }

  WirePeerStatus::Clock::time_point now = WirePeerStatus::Clock::now();

 private:
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::map<int, std::unique_ptr<Rank>> ranks_;
};

TEST_F(WireStatus, NobodyIsLateOrLostWhereAllDoTheSame) {
  for (std::uint64_t number = 1; number <= 3000; ++number) {
    for (int one = 0; one < ranks; ++one) issue(one, all_reduce(number));
    now += 1ms;
    if (number % 100 == 0) look();
  }
  now += 1s;
  look();
  for (int one = 0; one < ranks; ++one) {
    status(one).compare(all_reduce(3000));
    EXPECT_EQ(status(one).behind(3000), "");
    EXPECT_FALSE(status(one).lost(3000));
  }
}

TEST_F(WireStatus, ARankSpeaksOncePerSecondOrWhenItIsStuckOrFallsIdle) {
  look();
  EXPECT_EQ(said(0), 0U);  // it has issued nothing
  issue(0, all_reduce(1));
  look();
  EXPECT_EQ(said(0), 1U);
  issue(0, all_reduce(2));
  look();
  EXPECT_EQ(said(0), 1U);
  now += 249ms;
  look();
  EXPECT_EQ(said(0), 1U);
  now += 2ms;  // nothing has moved for a quarter of a second
  look();
  EXPECT_EQ(said(0), 2U);
  now += 500ms;
  look();
  EXPECT_EQ(said(0), 2U);
  now += 501ms;
  look();
  EXPECT_EQ(said(0), 3U);
  look(false);
  EXPECT_EQ(said(0), 4U);
  now += 1h;
  look(false);
  EXPECT_EQ(said(0), 4U);
}

TEST_F(WireStatus, BothSidesOfADisagreementAreNamed) {
  issue(0, all_reduce(1));
  issue(1, all_reduce(1));
  issue(2, all_reduce(1, 20));
  now += 1s;
  look();
  const std::string who =
      "ranks disagree: rank 0 issued all_reduce #1 of 10 f32 (sum, root 0), rank 2 issued all_reduce #1 of "
      "20 f32";
  for (const int one : {0, 2})
    test::expect_error(ErrorKind::mismatch, {who}, [&] { status(one).compare(all_reduce(1)); });
  test::expect_error(ErrorKind::mismatch, {"rank 1 issued", "rank 2 issued"},
                     [&] { status(1).compare(all_reduce(1)); });
}

TEST_F(WireStatus, ADisagreementIsSeenThoughTheOperationIsOver) {
  issue(0, all_reduce(1, 20));
  for (const int one : {1, 2}) issue(one, all_reduce(1));
  for (int one = 0; one < ranks; ++one) issue(one, all_reduce(2));
  now += 1s;
  look();
  test::expect_error(ErrorKind::mismatch,
                     {"rank 0 and rank 1 issued different operations before all_reduce #2 of 10 f32"},
                     [&] { status(1).compare(all_reduce(2)); });
}

TEST_F(WireStatus, WhatARankSaysAheadOfOthersIsComparedWhenTheyComeToIt) {
  issue(0, all_reduce(1, 20));
  now += 1s;
  look();
  status(1).compare(all_reduce(1));
  issue(1, all_reduce(1));
  look();
  test::expect_error(ErrorKind::mismatch, {"rank 0 issued all_reduce #1 of 20"},
                     [&] { status(1).compare(all_reduce(1)); });
}

TEST_F(WireStatus, WhoIsBehindIsNamedWithTheLastOperation) {
  look();
  for (const int one : {0, 1}) issue(one, all_reduce(1));
  issue(0, all_reduce(2));
  now += 1s;
  look();
  EXPECT_EQ(status(0).behind(2),
            "rank 1 (its last device operation is #1), rank 2 (has issued no device operation)");
}

TEST_F(WireStatus, ARankThatIsSilentIsNamedThoughItHadCome) {
  now -= 1h;
  for (int one = 0; one < ranks; ++one) issue(one, all_reduce(1));
  look();
  EXPECT_NE(status(0).behind(1).find("rank 1 (not heard from for 3600"), std::string::npos)
      << status(0).behind(1);
  status(1).tell(false, now);  // it is idle: that is no silence
  now += 1h;
  status(0).tell(true, now);
  EXPECT_EQ(status(0).behind(1).find("rank 1"), std::string::npos) << status(0).behind(1);
}

TEST_F(WireStatus, TheFirstWhoIsGoneIsTold) {
  look();
  rank(0).peers->lose(2, "its connection has closed");
  look();
  rank(0).peers->lose(1, "its connection has closed");
  status(1).give_up(Error(ErrorKind::peer_lost, "rank 2 is gone"));
  look();
  ASSERT_TRUE(status(0).lost(1));
  EXPECT_EQ(status(0).lost(1)->problem(), "rank 2 is gone: its connection has closed");
  EXPECT_EQ(status(2).lost(1)->problem(), "rank 1 failed: rank 2 is gone");
  EXPECT_FALSE(status(1).lost(1));
}

TEST_F(WireStatus, ADisagreementThatOthersFailedOfStaysOne) {
  look();
  status(1).give_up(Error(ErrorKind::mismatch, "ranks disagree: rank 1 ...,\nrank 2 ..."));
  look();
  EXPECT_EQ(status(0).lost(0)->kind(), ErrorKind::mismatch);
  EXPECT_EQ(status(0).lost(0)->problem(), "ranks disagree: rank 1 ...,\nrank 2 ...");
}

TEST_F(WireStatus, WhoLeavesIsMissedByThoseAloneWhoWaitForMore) {
  for (int one = 0; one < ranks; ++one) issue(one, all_reduce(1));
  look();
  rank(2).status.reset();
  rank(0).peers->lose(2, "its connection has closed");
  status(0).tell(true, now);
  EXPECT_FALSE(status(0).lost(0));
  EXPECT_FALSE(status(0).lost(1));
  EXPECT_EQ(status(0).lost(2)->problem(), "rank 2 has left after its device operation #1");
}

TEST_F(WireStatus, WhatNoRankSaysIsPassedOver) {
  look();
  for (const std::string word : {"", "at", "at\n1", "at\n1 5 1 99 1 0 0 0", "gave up\n-71 x", "gave up\n+x",
                                 "gave up", "left", "hello\nthere"})
    forge(1, word);
  look();
  EXPECT_EQ(status(0).behind(0), "");
}

TEST_F(WireStatus, AChannelThatFailsIsALossAndNoException) {
  issue(0, all_reduce(1));
  look();
  rank(0).channel.refuses = true;
  now += 1s;
  status(0).tell(true, now);
  EXPECT_EQ(status(0).lost(1)->problem(), "the side_channel is gone");
  rank(0).status.reset();  // and its goodbye is not heard
}

TEST(SideLanes, EachHearsItsOwn) {
  const auto mailbox = std::make_shared<Mailbox>();
  FakeSideChannel below_0(mailbox, 0);
  FakeSideChannel below_1(mailbox, 1);
  SideLanes zero(below_0);
  SideLanes one(below_1);
  zero.host().post("a");
  zero.device().post("b");
  zero.host().post("c");
  const auto of_device = one.device().collect();
  ASSERT_EQ(of_device.size(), 1U);
  EXPECT_EQ(of_device[0].body, "b");
  const auto of_host = one.host().collect();
  ASSERT_EQ(of_host.size(), 2U);
  EXPECT_EQ(of_host[1].body, "c");
  EXPECT_TRUE(one.device().collect().empty());
}

}  // namespace
}  // namespace weft::detail
