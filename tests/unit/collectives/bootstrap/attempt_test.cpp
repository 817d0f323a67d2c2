// Attempts of a job in one store, which keeps the words of all: ranks end at any of their calls and are started again, alone or together.

#include "collectives/bootstrap/attempt.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "../store/meeting_places.hpp"
#include "support/draw.hpp"
#include "support/expect_error.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using detail::RankIdentity;
using test::expect_error;

class Words : public detail::KeptStore {
 public:
  void put(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  std::optional<std::string> look(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

struct Killed {};

/// The store as a process sees it that is killed at one of its calls.
class UntilKilled : public detail::KeptStore {
 public:
  UntilKilled(Words& words, int calls) : words_(words), calls_(calls) {}
  void put(const std::string& key, const std::string& value) override {
    live();
    words_.put(key, value);
  }
  std::optional<std::string> look(const std::string& key) override {
    live();
    return words_.look(key);
  }

 private:
  void live() {
    if (calls_-- == 0) throw Killed();
  }
  Words& words_;
  int calls_;
};

/// The store as a process sees it that is killed when it has read the answer, and before it says so.
class KilledWithTheAnswer : public UntilKilled {
 public:
  explicit KilledWithTheAnswer(Words& words) : UntilKilled(words, -1) {}
  void put(const std::string& key, const std::string& value) override {
    if (key.find("/joined/") != std::string::npos) throw Killed();
    UntilKilled::put(key, value);
  }
};

class Attempts : public testing::Test {
 protected:
  std::string join(int rank, int size, Deadline deadline = Deadline::in(30s)) {
    return detail::join_attempt(words_, RankIdentity::of_this_process(rank, size), "connect", deadline);
  }
  /// @returns whether the rank was killed before it had joined
  bool join_until_killed(int rank, int size, int calls) {
    UntilKilled store(words_, calls);
    try {
      detail::join_attempt(store, RankIdentity::of_this_process(rank, size), "connect", Deadline::in(30s));
      return false;
    } catch (const Killed&) {
      return true;
    }
  }
  /// All ranks join; none of them finds another attempt than the others.
  std::string join_all(int size) {
    std::vector<std::string> names(static_cast<std::size_t>(size));
    test::on_ranks(size, [&](int rank) { names[static_cast<std::size_t>(rank)] = join(rank, size); });
    EXPECT_EQ(std::set(names.begin(), names.end()).size(), 1U);
    return names.front();
  }

  Words words_;
};

TEST_F(Attempts, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int attempt = 0; attempt < 5; ++attempt) names.insert(join_all(3));
  EXPECT_EQ(names.size(), 5U);
  EXPECT_EQ(join_all(1).empty(), false);
}

TEST_F(Attempts, RanksThatComeFirstDoNotTakeWhatAnEarlierOneLeft) {
  const std::string first = join_all(3);
  std::atomic<int> others = 0;
  test::on_ranks(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(100ms);
    others += rank != 0 && join(rank, 3) != first;
    if (rank == 0) join(rank, 3);
  });
  EXPECT_EQ(others, 2);
}

// At each of its calls in turn, while a third is still to come: the process that is started in its place is taken for the one before.
TEST_F(Attempts, ARankThatIsKilledWhileTheyMeetIsReplaced) {
  for (int killed = 0; killed < 2; ++killed) {
    for (int calls = 0; calls < 20; ++calls) {
      std::set<std::string> names;
      std::mutex mutex;
      const auto joins = [&](int rank) {
        const std::string name = join(rank, 3);
        const std::lock_guard lock(mutex);
        names.insert(name);
      };
      std::thread other([&] { joins(1 - killed); });
      EXPECT_TRUE(join_until_killed(killed, 3, calls));
      // Last, it finds an attempt that the third has completed with the hello of the process that was killed.
      std::thread last([&] { joins(2); });
      if (calls % 2 == 0) std::this_thread::sleep_for(20ms);
      std::thread again([&] { joins(killed); });
      for (std::thread* one : {&other, &again, &last}) one->join();
      EXPECT_EQ(names.size(), 1U) << "rank " << killed << " was killed at call " << calls;
    }
  }
}

// As torchrun with one agent does it: each attempt ends with all processes, wherever they are.
TEST_F(Attempts, WhateverAttemptsLeaveTheNextOneMeets) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    test::Draw draw(seed);
    const int size = 2 + draw.below(3);
    std::vector<int> calls;
    for (int rank = 0; rank < size; ++rank) calls.push_back(draw.below(40));
    test::on_ranks(size,
                   [&](int rank) { join_until_killed(rank, size, calls[static_cast<std::size_t>(rank)]); });
    if (draw.once_in(2)) join_all(size);
    SCOPED_TRACE(text("seed ", seed));
    join_all(size);
  }
}

TEST_F(Attempts, AreOverForTheirRanksWhenRankZeroBeginsAgain) {
  const std::string first = join_all(2);
  EXPECT_EQ(detail::attempt_is_over(words_, first, 1), std::nullopt);
  const std::string second = join_all(2);
  const auto over = detail::attempt_is_over(words_, first, 1);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->kind(), ErrorKind::peer_lost);
  EXPECT_NE(std::string(over->what()).find("has begun another attempt"), std::string::npos) << over->what();
  EXPECT_EQ(detail::attempt_is_over(words_, second, 1), std::nullopt);
}

// Its addresses may have been read: nobody waits for them until the deadline.
TEST_F(Attempts, AreOverWhenARankThatHadJoinedIsStartedAgain) {
  const std::string name = join_all(3);
  const std::string words = text("rank 2 (process ", getpid());
  expect_error(ErrorKind::timeout, {"rank 2: rank 0 (process "}, [&] { join(2, 3, Deadline::in(100ms)); });
  for (int rank = 0; rank < 2; ++rank) {
    const auto over = detail::attempt_is_over(words_, name, rank);
    ASSERT_TRUE(over);
    EXPECT_EQ(over->kind(), ErrorKind::peer_lost);
    for (const std::string& part :
         {words, std::string(" was started after process "), std::string(" had met the others as rank 2")})
      EXPECT_NE(std::string(over->what()).find(part), std::string::npos) << over->what();
  }
  const std::string second = join_all(3);
  EXPECT_EQ(detail::attempt_is_over(words_, second, 1), std::nullopt);
}

TEST_F(Attempts, ARankThatEndsWithTheAnswerIsReplaced) {
  std::vector<std::string> names(3);
  test::on_ranks(3, [&](int rank) {
    if (rank == 1) {
      KilledWithTheAnswer store(words_);
      EXPECT_THROW(
          detail::join_attempt(store, RankIdentity::of_this_process(1, 3), "connect", Deadline::in(30s)),
          Killed);
    }
    names[static_cast<std::size_t>(rank)] = join(rank, 3);
  });
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), 1U);
  EXPECT_EQ(detail::attempt_is_over(words_, names.front(), 2), std::nullopt);
}

TEST_F(Attempts, ARankThatEndsBeforeItHasJoinedIsNamed) {
  KilledWithTheAnswer store(words_);
  std::thread ends([&] {
    EXPECT_THROW(
        detail::join_attempt(store, RankIdentity::of_this_process(1, 3), "connect", Deadline::in(30s)),
        Killed);
  });
  std::thread joins([&] { join(2, 3, Deadline::in(10s)); });
  expect_error(ErrorKind::timeout, {"rank 0: rank 1 of 3 did not arrive within 0.5 s"},
               [&] { join(0, 3, Deadline::in(500ms)); });
  ends.join();
  joins.join();
}

TEST_F(Attempts, WhoIsMissingIsNamedByAll) {
  join_all(4);  // whose words are still there
  test::on_ranks(4, [&](int rank) {
    if (rank % 2 != 0) return;
    expect_error(ErrorKind::timeout, {text("rank ", rank, ": ranks 1, 3 of 4 did not arrive within 0.5 s")},
                 [&] { join(rank, 4, Deadline::in(500ms)); });
  });
}

TEST_F(Attempts, RankZeroThatDoesNotComeIsNamed) {
  expect_error(ErrorKind::timeout, {"rank 1: rank 0 of 2 did not answer within 0.1 s"},
               [&] { join(1, 2, Deadline::in(100ms)); });
}

TEST_F(Attempts, RankZeroThatDoesNotComeAgainIsNamed) {
  join_all(2);
  expect_error(ErrorKind::timeout,
               {"rank 1: rank 0 (process ", ") met process ", " as rank 1, which process ",
                "; it did not begin again within 0.1 s"},
               [&] { join(1, 2, Deadline::in(100ms)); });
}

TEST_F(Attempts, WhoComesTooLateHearsHowTheOthersEnded) {
  expect_error(ErrorKind::timeout, {"rank 1 of 2 did not arrive"}, [&] { join(0, 2, Deadline::in(100ms)); });
  expect_error(ErrorKind::timeout,
               {"rank 1: rank 0 (process ", "gave up: rank 1 of 2 did not arrive within 0.1 s"},
               [&] { join(1, 2, Deadline::in(100ms)); });
}

TEST_F(Attempts, TwoProcessesWithOneRankAreNamedOnAllRanks) {
  for (int twice = 0; twice < 2; ++twice) {
    std::atomic<int> refused = 0;
    std::vector<std::thread> ranks;
    for (const int rank : {0, 1, twice}) {
      ranks.emplace_back([&, rank] {
        try {
          join(rank, 3, Deadline::in(10s));
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
          EXPECT_NE(std::string(error.what()).find(text("rank ", twice, " (process ")), std::string::npos);
          EXPECT_NE(std::string(error.what()).find("is there twice"), std::string::npos) << error.what();
          ++refused;
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(refused, 3);
  }
}

// The other comes when the first has answered, and waits for a rank that has ended with the answer.
TEST_F(Attempts, AnotherRankZeroIsNamedAfterTheAnswer) {
  const auto is_refused = [&] {
    expect_error(ErrorKind::mismatch, {"rank 0 (process ", "is there twice"},
                 [&] { join(0, 2, Deadline::in(10s)); });
  };
  std::thread first(is_refused);
  KilledWithTheAnswer store(words_);
  EXPECT_THROW(detail::join_attempt(store, RankIdentity::of_this_process(1, 2), "connect", Deadline::in(30s)),
               Killed);
  is_refused();
  first.join();
}

TEST_F(Attempts, RanksThatCountDifferentlyAreNamedOnAllRanks) {
  for (const int size : {2, 3}) {
    join_all(2);
    const std::string line = text("rank 1 (process ", getpid(), " on ");
    test::on_ranks(2, [&](int rank) {
      expect_error(ErrorKind::mismatch,
                   {line, text(" counts ", 5 - size, " ranks, rank 0 ("), text(") ", size)},
                   [&] { join(rank, rank == 0 ? size : 5 - size, Deadline::in(10s)); });
    });
  }
}

}  // namespace
}  // namespace weft
