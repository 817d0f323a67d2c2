#include "weft/collectives/rendezvous.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../store/meeting_places.hpp"
#include "collectives/bootstrap/gathering.hpp"
#include "support/expect_error.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

class EveryRendezvous : public test::AtEveryPlace {
 protected:
  std::shared_ptr<Rendezvous> meet(int rank, int size, const std::string& name = "test") {
    return make_store_rendezvous(place().open(rank), name, rank, size);
  }
};

TEST_P(EveryRendezvous, HandsEverybodysNoteToEverybodyInEveryRound) {
  test::on_ranks(5, [&](int rank) {
    const auto rendezvous = meet(rank, 5);
    EXPECT_EQ(rendezvous->rank(), rank);
    EXPECT_EQ(rendezvous->size(), 5);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::string> expected;
      for (int other = 0; other < 5; ++other)
        expected.push_back(text("note ", round, other) + std::string(1, '\0'));
      EXPECT_EQ(rendezvous->all_gather(expected[static_cast<std::size_t>(rank)], "test", Deadline::in(20s)),
                expected);
    }
  });
}

TEST_P(EveryRendezvous, TellsEveryRankWhichOnesAreMissing) {
  std::barrier<> both(2);
  test::on_ranks(4, [&](int rank) {
    if (rank % 2 != 0) return;
    const auto rendezvous = meet(rank, 4);
    both.arrive_and_wait();  // neither is to miss the other, whose thread may be slow to start
    const Deadline deadline = Deadline::in(1s);
    expect_error(
        ErrorKind::timeout,
        {"rank " + std::to_string(rank) + ": ranks 1, 3 of 4 did not arrive within 1.0 s for connect"},
        [&] { rendezvous->all_gather("", "connect", deadline); });
    EXPECT_LT(deadline.waited_seconds(), 20);
  });
}

TEST_P(EveryRendezvous, NamesRankZeroWhenThatIsTheMissingOne) {
  // Rank 0 holds the place where the others meet, but does not come.
  const auto absent = meet(0, 3);
  test::on_ranks(3, [&](int rank) {
    if (rank == 0) return;
    const auto rendezvous = meet(rank, 3);
    expect_error(ErrorKind::timeout, {"rank 0 of 3 did not arrive within 0.5 s for connect"},
                 [&] { rendezvous->all_gather("", "connect", Deadline::in(500ms)); });
  });
}

TEST_P(EveryRendezvous, TellsALateRankAtOnceThatTheOthersGaveUp) {
  const auto first = meet(0, 2);
  expect_error(ErrorKind::timeout, {"rank 1 of 2 did not arrive"},
               [&] { first->all_gather("", "connect", Deadline::in(100ms)); });
  auto late = meet(1, 2);
  const Deadline deadline = Deadline::in(30s);
  expect_error(ErrorKind::timeout, {"rank 1 of 2 did not arrive within 0.1 s"},
               [&] { late->all_gather("", "connect", deadline); });
  EXPECT_LT(deadline.waited_seconds(), 20);
  late.reset();
}

TEST_P(EveryRendezvous, TellsApartRanksThatCameForDifferentThings) {
  test::on_ranks(3, [&](int rank) {
    const auto rendezvous = meet(rank, 3);
    expect_error(ErrorKind::mismatch, {"rank 2 came for 'register', rank 0 for 'connect'"},
                 [&] { rendezvous->all_gather("", rank == 2 ? "register" : "connect", Deadline::in(20s)); });
  });
}

// Rank `odd` counts one more or one less than the others. Before this was looked at, the others' sums missed a
// rank's data, or took a rank's that was none, and everybody ended with success.
TEST_P(EveryRendezvous, RefusesRanksThatCountDifferently) {
  for (const auto& [odd, size] : {std::pair(0, 2), {0, 4}, {1, 2}, {2, 4}}) {
    SCOPED_TRACE(text("rank ", odd, " counts ", size));
    const Deadline deadline = Deadline::in(20s);
    test::on_ranks(3, [&, odd = odd, size = size](int rank) {
      const auto rendezvous = meet(rank, rank == odd ? size : 3, text(odd, "-", size));
      expect_error(ErrorKind::mismatch, {text("rank ", odd, " ("), text(size), "counts", "process", "3"},
                   [&] { rendezvous->all_gather("", "connect", deadline); });
    });
    EXPECT_LT(deadline.waited_seconds(), 10);
  }
}

// Ranks 0 and 1 are whole without rank 2 of three: if it comes late, only it is refused, else they are in
// their next round at the latest.
TEST_P(EveryRendezvous, RefusesARankThatTheOthersDoNotCount) {
  std::barrier<> met(3);
  test::on_ranks(3, [&](int rank) {
    const auto rendezvous = meet(rank, rank == 2 ? 3 : 2);
    if (rank < 2) rendezvous->all_gather("", "connect", Deadline::in(20s));
    if (rank < 2) met.arrive_and_wait();
    if (rank == 2) {
      met.arrive_and_wait();
      expect_error(ErrorKind::mismatch, {"rank 2 (", "counts 3 ranks, rank 0 (", ") 2"},
                   [&] { rendezvous->all_gather("", "connect", Deadline::in(20s)); });
    }
    met.arrive_and_wait();
    if (rank < 2) {
      expect_error(ErrorKind::mismatch, {"rank 2 (", "counts 3 ranks"},
                   [&] { rendezvous->all_gather("", "again", Deadline::in(20s)); });
    }
  });
}

// Rank 2 never comes, and is not to be blamed for it.
TEST_P(EveryRendezvous, TellsApartTwoProcessesWithOneRank) {
  const Deadline deadline = Deadline::in(20s);
  test::on_ranks(3, [&](int thread) {
    const auto rendezvous = meet(std::min(thread, 1), 3);
    expect_error(ErrorKind::mismatch, {"rank 1 (process", "is there twice: process"},
                 [&] { rendezvous->all_gather("", "connect", deadline); });
  });
  EXPECT_LT(deadline.waited_seconds(), 10);
}

/// Ranks 0 to 2 of four meet, of which rank 3 never comes and one leaves; not at the deadline do the others hear of it.
/// Ranks that share a store in memory are threads of one process, which cannot leave.
class ARankThatLeaves : public EveryRendezvous {
 protected:
  void leaves(int rank_that_leaves, bool has_arrived, const std::string& named) {
    std::barrier<> all(3);
    const Deadline deadline = Deadline::in(30s);
    test::on_ranks(3, [&](int rank) {
      const auto store = place().open(rank);
      all.arrive_and_wait();
      if (rank != rank_that_leaves) {
        expect_error(ErrorKind::peer_lost, {named}, [&] {
          make_store_rendezvous(store, "test", rank, 4)->all_gather("", "connect", deadline);
        });
      } else if (has_arrived) {
        const detail::Arrival arrival{detail::RankIdentity::of_this_process(rank, 4), "connect", ""};
        store->set("test/1/" + std::to_string(rank), arrival.encode());
      }
    });
    EXPECT_LT(deadline.waited_seconds(), 10);
  }
};

TEST_P(ARankThatLeaves, BeforeItArrives) {
  leaves(1, false, "rank 1 has ended before all ranks met for connect");
}

TEST_P(ARankThatLeaves, AfterItArrived) {
  leaves(2, true, ") has ended before all ranks met for connect");
}

TEST_P(ARankThatLeaves, IsRankZero) {
  leaves(0, false, "rank 0");
}

// In a group a rank has another number, and the store is rank 0's of all.
TEST_P(ARankThatLeaves, IsOneOfAGroup) {
  test::on_ranks(4, [&](int rank) {
    auto rendezvous = meet(rank, 4);
    auto group = rendezvous->split(rank % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3});
    group->all_gather("", "hello", Deadline::in(20s));
    rendezvous->all_gather("", "hello", Deadline::in(20s));
    if (rank == 3) return;
    if (rank == 1) {
      expect_error(ErrorKind::peer_lost, {"rank 1 has ended before all ranks met for group"},
                   [&] { group->all_gather("", "group", Deadline::in(20s)); });
    } else {
      group->all_gather("", "group", Deadline::in(20s));
    }
  });
}

// Rank 0 has left with its error when rank 3 comes: it stays for that long.
TEST_P(ARankThatLeaves, IsNamedToOneThatComesLater) {
  std::barrier<> three(3);
  std::barrier<> last_two(2);
  test::on_ranks(4, [&](int rank) {
    if (rank == 3) last_two.arrive_and_wait();
    const auto store = place().open(rank);
    if (rank != 3) three.arrive_and_wait();
    if (rank == 2) return;
    expect_error(ErrorKind::peer_lost, {"rank 2 has ended before all ranks met for connect"}, [&] {
      make_store_rendezvous(store, "test", rank, 4)->all_gather("", "connect", Deadline::in(30s));
    });
    if (rank == 1) last_two.arrive_and_wait();
  });
}

// It ended before it came: its launcher alone knows.
TEST_P(ARankThatLeaves, IsNamedByItsLauncher) {
  const Deadline deadline = Deadline::in(30s);
  test::on_ranks(3, [&](int rank) {
    const auto store = place().open(rank);
    if (rank == 2)
      return store->set(detail::EndedRank::key, detail::EndedRank{2, "it ended with status 3"}.encode());
    expect_error(ErrorKind::peer_lost,
                 {"rank 2 has ended before all ranks met for connect: it ended with status 3"},
                 [&] { make_store_rendezvous(store, "test", rank, 3)->all_gather("", "connect", deadline); });
  });
  EXPECT_LT(deadline.waited_seconds(), 10);
}

// Its launcher listens in its stead.
TEST_P(ARankThatLeaves, IsRankZeroBeforeTheOthersCome) {
  const auto in_its_stead = place().open(0);
  in_its_stead->set(detail::EndedRank::key, detail::EndedRank{0, "it was killed by signal 9"}.encode());
  const Deadline deadline = Deadline::in(30s);
  test::on_ranks(3, [&](int rank) {
    if (rank == 0) return;
    const auto store = place().open(rank);
    expect_error(ErrorKind::peer_lost,
                 {"rank 0 has ended before all ranks met for connect: it was killed by signal 9"},
                 [&] { make_store_rendezvous(store, "test", rank, 3)->all_gather("", "connect", deadline); });
  });
  EXPECT_LT(deadline.waited_seconds(), 10);
}

// Rank 1 counted three ranks, rank 0 counts two, and rank 1 has left since: for rank 2, of which only rank 1 told, rank 0
// stays.
TEST_P(ARankThatLeaves, StillCountsForThoseThatComeLater) {
  auto store = place().open(0);
  {
    const detail::Arrival counts_three{detail::RankIdentity::of_this_process(1, 3), "connect", ""};
    place().open(1)->set("test/1/1", counts_three.encode());
  }
  while (store->gone().empty()) std::this_thread::sleep_for(10ms);
  const Deadline deadline = Deadline::in(5s);
  std::thread rank_2([&] {
    std::this_thread::sleep_for(300ms);
    EXPECT_NO_THROW(place().open(2, deadline)) << "rank 0 has not stayed";
  });
  expect_error(ErrorKind::mismatch, {"rank 1 (process", ") counts 3 ranks, rank 0 ("}, [&] {
    make_store_rendezvous(std::exchange(store, nullptr), "test", 0, 2)->all_gather("", "connect", deadline);
  });
  rank_2.join();
}

INSTANTIATE_TEST_SUITE_P(Places, ARankThatLeaves, testing::ValuesIn(test::places_of_processes()),
                         test::place_name);

TEST_P(EveryRendezvous, SplitsAgainAndAgainIntoGroupsInTheOrderOfTheirMembers) {
  test::on_ranks(4, [&](int rank) {
    const auto all = meet(rank, 4);
    const auto gather = [&](Rendezvous& group) {
      std::string together;
      for (const std::string& note : group.all_gather(std::to_string(rank), "group", Deadline::in(20s)))
        together += note;
      return together;
    };
    for (int turn = 0; turn < 2; ++turn) {
      const bool even = rank % 2 == 0;
      const auto halves = all->split(even ? std::vector{2, 0} : std::vector{1, 3});
      EXPECT_EQ(gather(*halves), even ? "20" : "13");
      EXPECT_EQ(halves->size(), 2);
      const auto single = halves->split({halves->rank()});
      EXPECT_EQ(gather(*single), std::to_string(rank));
      EXPECT_EQ(gather(*all), "0123");
    }
    all->all_gather("", "end", Deadline::in(20s));
  });
}

TEST_P(EveryRendezvous, OfAnotherNameOnTheSameStoreIsAnotherOne) {
  const auto store = place().open(0);
  const auto first = make_store_rendezvous(store, "first", 0, 1);
  const auto second = make_store_rendezvous(store, "second", 0, 1);
  EXPECT_EQ(first->all_gather("a", "test", Deadline::in(20s)), std::vector<std::string>{"a"});
  EXPECT_EQ(second->all_gather("b", "test", Deadline::in(20s)), std::vector<std::string>{"b"});
}

// All have met once. Then rank 1, which missed rank 2 when it connected, leaves; the others meet again without it.
TEST_P(EveryRendezvous, SaysWhyOneHasCalledOffInsteadOfMissingIt) {
  const Deadline deadline = Deadline::in(30s);
  std::barrier<> all(4);
  test::on_ranks(4, [&](int rank) {
    const auto rendezvous = meet(rank, 4);
    rendezvous->all_gather("", "addresses", deadline);
    EXPECT_EQ(rendezvous->called_off(), std::nullopt);
    all.arrive_and_wait();
    if (rank == 1) rendezvous->call_off(Error(ErrorKind::timeout, "rank 2 was not heard"));
    if (rank == 0 || rank == 3) {
      expect_error(ErrorKind::peer_lost, {text("rank ", rank, ": rank 2 was not heard")},
                   [&] { rendezvous->all_gather("", "groups", deadline); });
    }
    all.arrive_and_wait();
    if (rank == 2) {  // it only looks
      const auto why = rendezvous->called_off();
      ASSERT_TRUE(why.has_value());
      EXPECT_EQ(why->problem(), "rank 2 was not heard");
    }
    all.arrive_and_wait();
  });
  EXPECT_LT(deadline.waited_seconds(), 10);
}

TEST_P(EveryRendezvous, TheFirstToCallOffIsHeardAndAnErrorOfItsOwnIsSaidToBe) {
  std::barrier<> all(3);
  test::on_ranks(3, [&](int rank) {
    const auto rendezvous = meet(rank, 3);
    rendezvous->all_gather("", "addresses", Deadline::in(30s));
    if (rank == 2) rendezvous->call_off(Error(ErrorKind::system, "no memory"));
    all.arrive_and_wait();
    if (rank == 1) rendezvous->call_off(Error(ErrorKind::peer_lost, "rank 2 is gone"));
    all.arrive_and_wait();
    expect_error(ErrorKind::peer_lost, {"rank 2 failed: no memory"},
                 [&] { rendezvous->all_gather("", "groups", Deadline::in(30s)); });
    all.arrive_and_wait();
  });
}

// Rank 0 came later, and waits longer, than rank 1: it waits for rank 2 as rank 1 does, and is not what is missing.
TEST_P(EveryRendezvous, NamesWhoIsMissingAndNotRankZeroThatWaitsForItToo) {
  test::on_ranks(3, [&](int rank) {
    const auto rendezvous = meet(rank, 3);
    rendezvous->all_gather("", "addresses", Deadline::in(30s));
    if (rank == 2) return std::this_thread::sleep_for(4s);
    if (rank == 0) std::this_thread::sleep_for(500ms);
    expect_error(ErrorKind::timeout,
                 {text("rank ", rank, ": rank 2 of 3 did not arrive within 0.2 s for groups")},
                 [&] { rendezvous->all_gather("", "groups", Deadline::in(200ms)); });
  });
}

// Ranks 0 and 1 miss rank 2, rank 0 in a round and rank 1 while it connects, a little longer.
TEST_P(EveryRendezvous, RankZeroHearsWhomARankMissesThatIsNotThereYet) {
  std::barrier<> all(3);
  test::on_ranks(3, [&](int rank) {
    const auto rendezvous = meet(rank, 3);
    rendezvous->all_gather("", "addresses", Deadline::in(30s));
    if (rank == 1) {
      std::this_thread::sleep_for(300ms);
      rendezvous->call_off(Error(ErrorKind::timeout, "rank 2 did not call"));
    }
    if (rank == 0)
      expect_error(ErrorKind::peer_lost, {"rank 0: rank 2 did not call"},
                   [&] { rendezvous->all_gather("", "groups", Deadline::in(100ms)); });
    all.arrive_and_wait();
  });
}

// Nobody waits in the next round: a program that tries again is not held up by what it said before.
TEST_P(EveryRendezvous, CallingOffAfterARoundThatFailedChangesNothing) {
  const auto first = meet(0, 2);
  expect_error(ErrorKind::timeout, {"rank 1 of 2 did not arrive"},
               [&] { first->all_gather("", "connect", Deadline::in(10ms)); });
  first->call_off(Error(ErrorKind::timeout, "rank 1 of 2 did not arrive"));
  const auto late = meet(1, 2);
  expect_error(ErrorKind::timeout, {"rank 1 of 2 did not arrive"},
               [&] { late->all_gather("", "connect", Deadline::in(30s)); });
  test::on_ranks(2,
                 [&](int rank) { (rank == 0 ? first : late)->all_gather("", "connect", Deadline::in(30s)); });
}

INSTANTIATE_TEST_SUITE_P(Places, EveryRendezvous, testing::ValuesIn(test::all_places()), test::place_name);

TEST(Rendezvous, ShortensALongListOfMissingRanks) {
  const auto lonely = make_store_rendezvous(make_memory_store(), "test", 0, 100);
  expect_error(ErrorKind::timeout, {"ranks 1, 2, 3,", "15, 16 and 83 more of 100 did not arrive"},
               [&] { lonely->all_gather("", "connect", Deadline::in(10ms)); });
}

TEST(Rendezvous, RefusesRanksAndGroupsThatMakeNoSense) {
  const auto store = make_memory_store();
  expect_error(ErrorKind::usage, {"rank 2 of 2"}, [&] { make_store_rendezvous(store, "test", 2, 2); });
  expect_error(ErrorKind::usage, {"without a store"}, [&] { make_store_rendezvous(nullptr, "test", 0, 2); });
  const auto rendezvous = make_store_rendezvous(store, "test", 1, 4);
  for (const std::vector<int>& members : {std::vector<int>{}, {0, 2}, {1, 1}, {1, 4}, {-1, 1}}) {
    expect_error(ErrorKind::usage, {"asked by rank 1 of 4"}, [&] { rendezvous->split(members); });
  }
}

}  // namespace
}  // namespace weft
