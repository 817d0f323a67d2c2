#include "collectives/diagnosis/agree.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/shm/threads_backend.hpp"
#include "support/expect_error.hpp"
#include "weft/collectives/store.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

std::shared_ptr<Rendezvous> meet(const std::shared_ptr<Store>& store, int rank, int ranks = 3) {
  return make_store_rendezvous(store, "agree", rank, ranks);
}

TEST(Outcome, IsTheSameInTheWordsOfAnotherRank) {
  for (const std::string note : {"", "10.0.0.1 9400", "+", "-", "two\nlines"}) {
    const Outcome heard = Outcome::from(Outcome::of([&] { return note; }).words());
    EXPECT_EQ(heard.note(), note);
    EXPECT_FALSE(heard.why());
  }
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::mismatch, ErrorKind::timeout,
                               ErrorKind::peer_lost, ErrorKind::system, ErrorKind::internal}) {
    for (const char* const advice : {"", "7 to 9"}) {
      const Outcome heard = Outcome::from(Outcome(Error(kind, "12 of\n8", advice)).words());
      ASSERT_TRUE(heard.why());
      EXPECT_EQ(heard.why()->kind(), kind);
      EXPECT_EQ(heard.why()->problem(), "12 of\n8");
      EXPECT_EQ(heard.why()->advice(), advice);
    }
  }
}

TEST(Outcome, OfWordsThatNoRankSaysIsRefused) {
  for (const std::string words : {"", "x", "-", "-0", "-00", "-61 x", "-/1 x", "-02 x", "-0x y", "-0-1 x",
                                  "-099999999999999999999 x"}) {
    SCOPED_TRACE(words);
    expect_error(ErrorKind::mismatch, {text("outcome of ", words.size(), " bytes makes no sense")},
                 [&] { (void)Outcome::from(words); });
  }
}

TEST(Agree, HandsTheNotesOfAllToAll) {
  const auto store = make_memory_store();
  on_threads(3, [&](int rank) {
    const auto rendezvous = meet(store, rank);
    EXPECT_EQ(agree(*rendezvous, "connect: addresses", Deadline::in(30s), [&] { return text("at ", rank); }),
              (std::vector<std::string>{"at 0", "at 1", "at 2"}));
  });
}

// A rank fails before the others wait, after they do, or when they all have come but it.
TEST(Agree, EveryRankHearsOfOneThatFailsWheneverItDoes) {
  for (const int last : {0, 1, 2}) {
    for (const bool names_it : {false, true}) {
      SCOPED_TRACE(text("rank ", last, " comes last"));
      const auto store = make_memory_store();
      on_threads(3, [&](int rank) {
        const auto rendezvous = meet(store, rank);
        if (rank == last) std::this_thread::sleep_for(50ms);
        const std::string own = names_it ? "rank 1: connect: rank 1 cannot use TCP: no interface"
                                         : "rank 1: connect: no interface";
        const std::string other = text(
            "rank ", rank,
            names_it ? ": connect: rank 1 cannot use TCP: no interface" : ": connect: rank 1: no interface");
        expect_error(ErrorKind::usage, {rank == 1 ? own : other, "; plug one in"}, [&] {
          agree(
              *rendezvous, "connect: addresses", Deadline::in(30s),
              [&] {
                if (rank == 1) throw Error(ErrorKind::usage, "no interface", "plug one in");
              },
              names_it ? "use TCP" : "");
        });
      });
    }
  }
}

TEST(Agree, OfTwoThatFailEachSaysItsOwnAndTheOthersTheFirst) {
  const auto store = make_memory_store();
  on_threads(3, [&](int rank) {
    const auto rendezvous = meet(store, rank);
    expect_error(rank == 2 ? ErrorKind::system : ErrorKind::usage,
                 {std::vector<std::string>{"rank 1: no port", "connect: no port",
                                           "connect: no memory"}[static_cast<std::size_t>(rank)]},
                 [&] {
                   agree(*rendezvous, "connect", Deadline::in(30s), [&] {
                     if (rank == 1) throw Error(ErrorKind::usage, "no port");
                     if (rank == 2) throw Error(ErrorKind::system, "no memory");
                   });
                 });
  });
}

// An exception of another type stays itself where it was thrown.
TEST(Agree, TellsOfAnyException) {
  for (const bool is_standard : {true, false}) {
    const auto store = make_memory_store();
    on_threads(2, [&](int rank) {
      const auto rendezvous = meet(store, rank, 2);
      const auto part = [&] {
        agree(*rendezvous, "connect", Deadline::in(30s), [&] {
          if (rank == 1 && is_standard) throw std::length_error("too long");
          if (rank == 1) throw 7;
        });
      };
      if (rank == 0) {
        expect_error(ErrorKind::system,
                     {is_standard ? "rank 1: too long" : "rank 1: an exception that is no std::exception"},
                     part);
      } else if (is_standard) {
        EXPECT_THROW(part(), std::length_error);
      } else {
        EXPECT_THROW(part(), int);
      }
    });
  }
}

// Rank 2 says nothing. Rank 1 has failed, which is more than that a rank is missing.
TEST(Agree, ARankThatIsSilentUntilTheDeadlineIsNamed) {
  const auto store = make_memory_store();
  on_threads(3, [&](int rank) {
    if (rank == 2) return;
    const auto rendezvous = meet(store, rank);
    expect_error(rank == 0 ? ErrorKind::timeout : ErrorKind::usage,
                 {rank == 0 ? "rank 2 of 3 did not arrive within 0.2 s for connect" : "no port"}, [&] {
                   agree(*rendezvous, "connect", Deadline::in(200ms), [&] {
                     if (rank == 1) throw Error(ErrorKind::usage, "no port");
                   });
                 });
  });
}

TEST(Agree, WorksOverACommunicatorWhichGoesOn) {
  run_as_threads(3, [](Communicator comm) {
    const auto notes =
        agree(comm, "Metrics", [&] { return std::string(static_cast<std::size_t>(comm.rank()) * 3, 'x'); });
    EXPECT_EQ(notes, (std::vector<std::string>{"", "xxx", "xxxxxx"}));
    expect_error(ErrorKind::system, {comm.rank() == 1 ? "Metrics: no port" : "Metrics: rank 1: no port"},
                 [&] {
                   agree(comm, "Metrics", [&] {
                     if (comm.rank() == 1) throw Error(ErrorKind::system, "no port");
                   });
                 });
    EXPECT_EQ(on_rank_0(comm, "Saver", [&] { return text("of ", comm.rank()); }), "of 0");
    expect_error(ErrorKind::usage, {text("rank ", comm.rank(), ": Saver: no folder; make it")}, [&] {
      on_rank_0(comm, "Saver", [&] { throw Error(ErrorKind::usage, "no folder", "make it"); });
    });
    Stream stream;
    comm.barrier(stream).wait();
  });
}

// Between two meetings, by any exception; a misuse keeps its kind, so that no supervisor starts the job again.
TEST(OrCallOff, TellsThoseThatWaitInTheNextMeeting) {
  const auto cases = std::vector<std::pair<ErrorKind, std::function<void()>>>{
      {ErrorKind::usage, [] { throw Error(ErrorKind::usage, "too long"); }},
      {ErrorKind::mismatch, [] { throw Error(ErrorKind::mismatch, "too long"); }},
      {ErrorKind::peer_lost, [] { throw Error(ErrorKind::internal, "too long"); }},
      {ErrorKind::peer_lost, [] { throw std::length_error("too long"); }}};
  for (const auto& [kind, fail] : cases) {
    const auto store = make_memory_store();
    std::barrier<> both(2);
    on_threads(2, [&, heard = kind, body = fail](int rank) {
      const auto rendezvous = meet(store, rank, 2);
      rendezvous->all_gather("", "addresses", Deadline::in(30s));
      both.arrive_and_wait();
      if (rank == 1) {
        EXPECT_ANY_THROW(or_call_off(*rendezvous, body));
      } else {
        expect_error(heard, {"rank 1 failed: too long"},
                     [&] { rendezvous->all_gather("", "groups", Deadline::in(30s)); });
      }
    });
  }
}

TEST(TellTheOthers, NeverThrows) {
  int calls = 0;
  tell_the_others(0, [&] { ++calls; });
  tell_the_others(0, [&] {
    ++calls;
    throw Error(ErrorKind::system, "the side channel is gone");
  });
  tell_the_others(0, [&] {
    ++calls;
    throw 7;
  });
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace weft::detail
