// Watchdogs that share a side_channel which is none of MPI's. `ago` lies in the past, so nobody has to wait.

#include "collectives/diagnosis/watchdog.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "collectives/diagnosis/operation_words.hpp"
#include "support/expect_error.hpp"
#include "support/fake_side_channel.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

using test::FakeSideChannel;
using test::Mailbox;

struct Rank {
  Rank(std::shared_ptr<Mailbox> mailbox, int rank)
      : side_channel(std::move(mailbox), rank),
        log("world", {0, 1, 2, 3}, rank),
        watchdog(side_channel, log, rank, 4) {}

  Operation issue(Operation operation) {
    log.issued(OperationLog::Sequence::host, operation);
    return operation;
  }
  /// From an operation that has waited for so long. A watchdog looks every 5 ms at most.
  void look(const std::optional<Operation>& mine, std::chrono::nanoseconds ago) {
    if (std::exchange(has_looked_, true)) std::this_thread::sleep_for(6ms);
    watchdog.look(mine, Watchdog::Clock::now() - ago);
  }
  /// That it waits in the operation, for long enough to say so.
  void wait_in(const Operation& operation) { look(issue(operation), 1s); }
  void listen() { look(std::nullopt, 0s); }
  /// For an operation that began so long ago, seen `from_now` on.
  std::string late(std::uint64_t number, std::chrono::nanoseconds ago,
                   std::chrono::nanoseconds from_now = 0s) {
    const auto now = Watchdog::Clock::now() + from_now;
    return watchdog.late(number, now - from_now - ago, now).names;
  }

  FakeSideChannel side_channel;
  OperationLog log;
  Watchdog watchdog;

 private:
  bool has_looked_ = false;
};

class Watchdogs : public testing::Test {
 protected:
  Rank& rank(int number) {
    auto& one = ranks_[number];
    if (!one) one = std::make_unique<Rank>(mailbox_, number);
    return *one;
  }
  /// What a rank says that speaks another language.
  void forge(int from, const std::string& word) { FakeSideChannel(mailbox_, from).post(word); }

 private:
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::map<int, std::unique_ptr<Rank>> ranks_;
};

Operation all_reduce(std::uint64_t number, std::int64_t count = 10) {
  return {.kind = Collective::all_reduce, .number = number, .count = count, .dtype = DataType::f32};
}

TEST_F(Watchdogs, AreSilentWhereAllRanksDoTheSame) {
  for (std::uint64_t number = 1; number <= 3; ++number) {
    for (const int one : {0, 1, 2}) rank(one).wait_in(all_reduce(number));
  }
  for (const int one : {0, 1, 2}) {
    rank(one).listen();
    EXPECT_EQ(rank(one).side_channel.posted().size(), 3U);
  }
}

TEST_F(Watchdogs, NameBothSidesOfAMismatchTheLowerRankFirst) {
  const Operation sum = all_reduce(3);
  Operation other = sum;
  other.count = 20;
  other.op = ReduceOp::max;
  rank(2).wait_in(other);
  const std::string both =
      "ranks disagree: rank 1 issued all_reduce #3 of 10 f32 (sum, root 0), "
      "rank 2 issued all_reduce #3 of 20 f32 (max, root 0); issue the same operations in the same order";
  test::expect_error(ErrorKind::mismatch, {both}, [&] { rank(1).wait_in(sum); });
  // Rank 1 found it out before it could say what it waits in; it gives up and says why.
  rank(1).watchdog.give_up(Error(ErrorKind::mismatch, both));
  test::expect_error(ErrorKind::mismatch, {both}, [&] { rank(2).look(other, 1s); });
}

TEST_F(Watchdogs, FindEveryDifference) {
  const Operation same{.kind = Collective::reduce,
                       .number = 1,
                       .count = 8,
                       .dtype = DataType::f16,
                       .op = ReduceOp::min,
                       .root = 2};
  std::vector<Operation> others(5, same);
  others[0].kind = Collective::all_reduce;
  others[1].count = 9;
  others[2].dtype = DataType::bf16;
  others[3].op = ReduceOp::prod;
  others[4].root = 3;
  for (const Operation& other : others) {
    const auto mailbox = std::make_shared<Mailbox>();
    Rank first(mailbox, 0);
    Rank second(mailbox, 1);
    first.wait_in(same);
    test::expect_error(ErrorKind::mismatch, {"rank 0 issued " + same.text(), "rank 1 issued " + other.text()},
                       [&] { second.wait_in(other); });
  }
}

TEST_F(Watchdogs, CompareWhatARankIsAlreadyPast) {
  for (std::uint64_t number = 1; number <= 5; ++number) rank(0).issue(all_reduce(number));
  rank(1).wait_in(all_reduce(2, 11));
  test::expect_error(ErrorKind::mismatch,
                     {"rank 0 issued all_reduce #2 of 10", "rank 1 issued all_reduce #2 of 11"},
                     [&] { rank(0).look(all_reduce(5), 0s); });
}

TEST_F(Watchdogs, CompareAgainWhenARankGetsThere) {
  rank(1).wait_in(all_reduce(2, 11));
  rank(0).wait_in(all_reduce(1));  // where nothing is wrong yet
  test::expect_error(ErrorKind::mismatch, {"all_reduce #2 of 10", "all_reduce #2 of 11"},
                     [&] { rank(0).look(rank(0).issue(all_reduce(2)), 0s); });
}

TEST_F(Watchdogs, CompareWhatIsForgottenWithNothing) {
  rank(1).wait_in(all_reduce(1, 11));
  for (std::uint64_t number = 1; number <= 1025; ++number) rank(0).issue(all_reduce(number));
  EXPECT_NO_THROW(rank(0).look(all_reduce(1025), 0s));
}

TEST_F(Watchdogs, SayNothingOfAShortWait) {
  const Operation operation = rank(0).issue(all_reduce(1));
  rank(0).look(operation, 0s);
  rank(0).look(operation, 100ms);
  EXPECT_TRUE(rank(0).side_channel.posted().empty());
  rank(0).look(operation, 250ms);
  EXPECT_EQ(rank(0).side_channel.posted().size(), 1U);
}

TEST_F(Watchdogs, SayItOnceAnOperation) {
  for (std::uint64_t number = 1; number <= 2; ++number) {
    const Operation operation = rank(0).issue(all_reduce(number));
    for (int look = 0; look < 3; ++look) rank(0).look(operation, 1s);
    EXPECT_EQ(rank(0).side_channel.posted().size(), number);
  }
  rank(0).look(all_reduce(1), 10s);  // others know of a later one
  EXPECT_EQ(rank(0).side_channel.posted().size(), 2U);
  rank(0).look(std::nullopt, 10s);  // a group, of a thread that was silent for less than a second
  EXPECT_EQ(rank(0).side_channel.posted().size(), 2U);
}

TEST_F(Watchdogs, LookNoOftenerThanEvery5Milliseconds) {
  const Operation operation = rank(0).issue(all_reduce(1));
  const auto begin = Watchdog::Clock::now();
  int looks = 0;
  while (rank(0).side_channel.posted().empty()) {
    rank(0).watchdog.look(operation, looks++ == 0 ? begin : begin - 1s);
    ASSERT_LT(Watchdog::Clock::now() - begin, 10s);
  }
  EXPECT_GE(Watchdog::Clock::now() - begin, 5ms);
}

TEST_F(Watchdogs, TellThatARankGaveUpAndWhy) {
  rank(1).watchdog.give_up(Error(ErrorKind::system, "no memory left", "buy some", {1, "all_reduce", 3}));
  test::expect_error(ErrorKind::peer_lost, {"rank 1 failed: no memory left", "its own message says why"},
                     [&] { rank(0).wait_in(all_reduce(3)); });
  EXPECT_TRUE(rank(0).side_channel.posted().empty());
  test::expect_error(ErrorKind::peer_lost, {"rank 1 failed: no memory left"}, [&] { rank(2).listen(); });
}

TEST_F(Watchdogs, PassAMismatchOnAsOne) {
  rank(1).watchdog.give_up(Error(ErrorKind::mismatch, "ranks disagree: rank 1 ..., rank 2 ..."));
  test::expect_error(ErrorKind::mismatch, {"ranks disagree: rank 1 ..., rank 2 ..."},
                     [&] { rank(0).listen(); });
}

TEST_F(Watchdogs, GiveUpOnceAndWithoutAnError) {
  rank(1).watchdog.give_up(Error(ErrorKind::timeout, "the first"));
  rank(1).watchdog.give_up(Error(ErrorKind::usage, "the second"));
  ASSERT_EQ(rank(1).side_channel.posted().size(), 1U);
  EXPECT_NE(rank(1).side_channel.posted()[0].find("the first"), std::string::npos);
  rank(2).side_channel.refuses = true;
  rank(2).watchdog.give_up(Error(ErrorKind::usage, "nobody hears"));
  EXPECT_TRUE(rank(2).side_channel.posted().empty());
}

TEST_F(Watchdogs, NameWhoIsLate) {
  EXPECT_EQ(rank(1).late(5, 1s), "rank 0, rank 2, rank 3");
  rank(0).wait_in(all_reduce(4));
  rank(2).wait_in(all_reduce(5));
  rank(3).wait_in(all_reduce(6));
  rank(1).listen();
  EXPECT_EQ(rank(1).late(5, 1s), "rank 0 (it waits in #4)");
  EXPECT_EQ(rank(1).late(4, 1s), "");
  EXPECT_EQ(rank(1).late(7, 1s), "rank 0 (it waits in #4), rank 2 (it waits in #5), rank 3 (it waits in #6)");
}

TEST_F(Watchdogs, NameNobodyWhoWaitsHimselfWhereAnotherDoesNot) {
  rank(0).wait_in(all_reduce(4));
  rank(2).look(std::nullopt, 1s);  // for messages
  rank(1).listen();
  EXPECT_EQ(rank(1).late(5, 1s), "rank 3");
  EXPECT_EQ(rank(1).late(4, 1s), "rank 3");
}

// Ranks 0 and 2 said that they wait, and then the line was cut.
TEST_F(Watchdogs, NameWhoSaysThatHeWaitsNoLonger) {
  for (const int one : {0, 2, 3}) rank(one).wait_in(all_reduce(5));
  rank(1).listen();
  EXPECT_EQ(rank(1).late(5, 1s, 2s), "");
  std::this_thread::sleep_for(6ms);
  rank(3).watchdog.look(all_reduce(5), Watchdog::Clock::now() - 1s, Watchdog::Clock::now() + 4s);
  rank(1).watchdog.look(std::nullopt, Watchdog::Clock::now(), Watchdog::Clock::now() + 4s);
  const std::string late = rank(1).late(5, 1s, 4s);
  EXPECT_NE(late.find("rank 0 (not heard from for "), std::string::npos) << late;
  EXPECT_NE(late.find(", rank 2 (not heard from for "), std::string::npos) << late;
  EXPECT_EQ(late.find("rank 3"), std::string::npos) << late;
  // What rank 0 said of an earlier operation is no sign of silence: it may be on its way to this one.
  EXPECT_EQ(rank(1).late(6, 1s, 4s), "rank 0, rank 2");
}

// Rank 1 has not run for four seconds, and could not hear the others. Then it listens, and they are silent.
TEST_F(Watchdogs, DoNotTakeTheirOwnStandstillForTheOthersSilence) {
  for (const int one : {0, 2, 3}) rank(one).wait_in(all_reduce(5));
  const Operation operation = rank(1).issue(all_reduce(5));
  const auto begin = Watchdog::Clock::now();
  rank(1).watchdog.look(operation, begin - 1s, begin);
  rank(1).watchdog.look(operation, begin - 1s, begin + 4s);
  EXPECT_EQ(rank(1).watchdog.late(5, begin - 1s, begin + 4s).names, "");
  for (int tenth = 1; tenth <= 40; ++tenth)
    rank(1).watchdog.look(operation, begin - 1s, begin + 4s + tenth * 100ms);
  EXPECT_EQ(rank(1).watchdog.late(5, begin - 1s, begin + 8s).ranks, (std::vector{0, 2, 3}));
}

TEST_F(Watchdogs, NameNobodyBeforeOthersHadTheTimeToSayThatTheyWait) {
  EXPECT_EQ(rank(1).late(5, 0s), "");
  EXPECT_EQ(rank(1).late(5, 300ms), "");
  EXPECT_EQ(rank(1).late(5, 500ms), "rank 0, rank 2, rank 3");
}

TEST_F(Watchdogs, SayEverySecondThatTheyStillWait) {
  const auto begin = Watchdog::Clock::now();
  const Operation operation = rank(0).issue(all_reduce(1));
  for (int tenth = 0; tenth <= 52; ++tenth) rank(0).watchdog.look(operation, begin, begin + tenth * 100ms);
  EXPECT_EQ(rank(0).side_channel.posted().size(), 5U);  // after 0.3 s, and 1.3, 2.3, 3.3, 4.3
}

TEST_F(Watchdogs, PassOnAProblemOfSeveralLinesWhole) {
  rank(1).watchdog.give_up(Error(ErrorKind::system, "Traceback:\nNameError: x"));
  test::expect_error(ErrorKind::peer_lost, {"rank 1 failed: Traceback:\\nNameError: x"},
                     [&] { rank(0).listen(); });
}

// Who tells of others is not to blame, unless they are the one who reads it.
TEST_F(Watchdogs, PassTheNamesOfThoseOnThatARankWaitedFor) {
  rank(1).watchdog.give_up(Error(ErrorKind::timeout, "waited 5 s for rank 3, rank 2"));
  test::expect_error(ErrorKind::peer_lost, {"waited 5 s for rank 3, rank 2; its own message"},
                     [&] { rank(0).listen(); });
  test::expect_error(ErrorKind::peer_lost, {"rank 1 failed: waited 5 s for rank 3, rank 2"},
                     [&] { rank(2).listen(); });
}

TEST(FailureOf, NamesWhoFailedWhereItNamesNobodyElse) {
  const auto said = [](ErrorKind kind, const char* problem) {
    return failure_of(0, 1, kind, problem).problem();
  };
  EXPECT_EQ(said(ErrorKind::timeout, "waited 5 s for this rank's operation #3 to end"),
            "rank 1 failed: waited 5 s for this rank's operation #3 to end");
  EXPECT_EQ(said(ErrorKind::peer_lost, "left an operation"), "rank 1 failed: left an operation");
  EXPECT_EQ(said(ErrorKind::peer_lost, "rank 17 (process 8) has died"), "rank 17 (process 8) has died");
  EXPECT_EQ(said(ErrorKind::usage, "rank 17 is no rank"), "rank 1 failed: rank 17 is no rank");
}

TEST_F(Watchdogs, TakeAWordThatNobodySaysForADefect) {
  for (const std::string word : {"waits\n3 0 ten 0 0 0", "waits\n", "waits\n3 0 10", "waits\n3 200 10 0 0 0",
                                 "waits\n3 0 10 99 0 0", "waits\n3 0 10 0 -1 0", "gave up\n", "gave up\nwhy",
                                 "gave up\n-93 why", "gave up\n+why", "hello\n1 2 3", ""}) {
    SCOPED_TRACE(word);
    forge(1, word);
    test::expect_error(ErrorKind::internal, {"rank 1 says '", "', which no rank does"},
                       [&] { rank(0).listen(); });
  }
}

}  // namespace
}  // namespace weft::detail
