// What every backend that shares memory must say when ranks disagree or do not come. (Backends between nodes
// learn to compare operations with the watchdog.)

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/expect_error.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

/// For what must run into its deadline: long beside the time for which a busy machine may hold a thread up.
constexpr auto short_timeout = 2s;

TEST(Failures, RanksThatDisagreeAreNamedWithBothValuesOnEveryRank) {
  run_as_threads(3, [](Communicator comm) {
    Stream stream;
    std::vector<float> data(10);
    const View view = View(std::span(data)).slice(0, comm.rank() == 2 ? 9 : 10);
    expect_error(ErrorKind::mismatch,
                 {text("rank ", comm.rank(), ": all_reduce #1"), "rank 2", "of 9 f32", "of 10 f32"},
                 [&] { comm.all_reduce(view, ReduceOp::sum, stream).wait(); });
    // Broken for good, with the same reason.
    Stream other;
    expect_error(ErrorKind::mismatch, {"of 9 f32"}, [&] { comm.barrier(other); });
    expect_error(ErrorKind::mismatch, {"of 9 f32"}, [&] { (void)comm.split(0); });
  });
}

TEST(Failures, DifferentOperationsAreAMismatch) {
  run_as_threads(2, [](Communicator comm) {
    Stream stream;
    std::vector<float> data(10);
    const View view{std::span(data)};
    expect_error(ErrorKind::mismatch, {"rank 0 issued all_reduce #1", "rank 1 issued broadcast #1"}, [&] {
      if (comm.rank() == 0) {
        comm.all_reduce(view, ReduceOp::sum, stream).wait();
      } else {
        comm.broadcast(view, 0, stream).wait();
      }
    });
  });
}

TEST(Failures, ARankThatNeverComesIsNamedAtTheDeadlineWithWhereItIs) {
  std::atomic<int> heard = 0;
  run_as_threads(3,
                 [&](Communicator comm) {
                   Stream stream;
                   comm.barrier(stream).wait();
                   if (comm.rank() == 1) {
                     while (heard < 2) std::this_thread::sleep_for(1ms);
                     return;
                   }
                   expect_error(ErrorKind::timeout,
                                {"barrier #2", "waited ", "rank 1 (its last collective is #1)"},
                                [&] { comm.barrier(stream).wait(); });
                   ++heard;
                 },
                 {.timeout = short_timeout});
}

// Each operation keeps the timeout that was set when it was issued, and counts from its turn on its stream.
TEST(Failures, AnOperationKeepsTheTimeoutThatWasSetWhenItWasIssued) {
  std::atomic<bool> failed = false;
  run_as_threads(3,
                 [&](Communicator comm) {
                   Stream stream;
                   EXPECT_EQ(comm.timeout(), 60s);
                   comm.timeout(100ms);
                   EXPECT_EQ(comm.timeout(), 100ms);
                   comm.barrier(stream).wait();  // all come in time, or nearly: none has been looked for yet
                   if (comm.rank() != 0) {
                     while (!failed) std::this_thread::sleep_for(1ms);
                     return;
                   }
                   comm.timeout(60s);
                   std::vector<float> data(10);
                   const Work patient = Group(comm).receive(View(std::span(data)), 1).start(stream);
                   Stream other;
                   comm.timeout(200ms);
                   const Work impatient = Group(comm).receive(View(std::span(data)), 2).start(other);
                   comm.timeout(60s);
                   expect_error(ErrorKind::timeout,
                                {"send/receive group #2", "waited 0.", "rank 2 to send 10 f32"},
                                [&] { impatient.wait(); });
                   // The communicator is broken, so what else waits fails with the same.
                   expect_error(ErrorKind::timeout, {"rank 2 to send"}, [&] { patient.wait(); });
                   failed = true;
                 },
                 {.timeout = 60s});
  failed = false;
  run_as_threads(2,
                 [&](Communicator comm) {
                   Stream stream;
                   comm.timeout(comm.rank() == 0 ? 200ms : 60'000ms);
                   if (comm.rank() == 0) {
                     expect_error(ErrorKind::timeout,
                                  {"all_reduce #1", "waited 0.", "rank 1 (has issued no collective)"}, [&] {
                                    std::vector<float> data(10);
                                    comm.all_reduce(View(std::span(data)), ReduceOp::sum, stream).wait();
                                  });
                     failed = true;
                   }
                   while (!failed) std::this_thread::sleep_for(1ms);
                   expect_error(ErrorKind::usage, {"a timeout of 0 s"}, [&] { comm.timeout(0s); });
                   expect_error(ErrorKind::usage, {"a timeout of -1 s"}, [&] { comm.timeout(-1s); });
                 },
                 {.timeout = 60s});
}

TEST(Failures, AWaitThatExpiresNamesTheRanksAndMayBeRepeated) {
  std::atomic<int> step = 0;
  run_as_threads(
      3,
      [&](Communicator comm) {
        Stream stream;
        Stream messages;
        std::vector<float> data(10);
        const View view{std::span(data)};
        comm.barrier(stream).wait();
        if (comm.rank() == 1) {
          while (step < 1) std::this_thread::sleep_for(1ms);
          comm.barrier(stream).wait();
          Group(comm).send(view, 0).start(messages).wait();
          return;
        }
        const Work barrier = comm.barrier(stream);
        if (comm.rank() == 2) return barrier.wait();
        const Work received = Group(comm).receive(view, 1).start(messages);
        const Work behind = Group(comm).receive(view, 1).start(messages);
        // Rank 2 may not have come yet, too.
        expect_error(ErrorKind::timeout,
                     {"barrier #2", "was not done after 0.", "waits for rank 1 (its last collective is #1)"},
                     [&] {
                       std::this_thread::sleep_for(100ms);
                       barrier.wait(Deadline::in(50ms));
                     });
        expect_error(ErrorKind::timeout, {"send/receive group #1", "waits for rank 1 to send 10 f32"},
                     [&] { received.wait(Deadline::in(50ms)); });
        expect_error(ErrorKind::timeout, {"send/receive group #2", "this rank (0)"},
                     [&] { behind.wait(Deadline::in(10ms)); });
        ++step;
        barrier.wait();
        received.wait();
        comm.give_up(Error(ErrorKind::usage, "that was all"));
        EXPECT_THROW(behind.wait(Deadline::in(10s)), Error);
      },
      {.timeout = 60s});
}

TEST(Failures, AFunctionIsCalledForAnOperationThatFailsAndForThoseAfterIt) {
  std::atomic<int> calls = 0;
  run_as_threads(2,
                 [&](Communicator comm) {
                   Stream stream;
                   if (comm.rank() == 1) {
                     while (calls < 2) std::this_thread::sleep_for(1ms);
                     return;
                   }
                   comm.timeout(100ms);
                   const Work late = comm.barrier(stream);
                   const Work dropped = comm.barrier(stream);
                   for (const Work* work : {&late, &dropped}) {
                     work->then([&, work] {
                       EXPECT_TRUE(work->error());
                       ++calls;
                     });
                   }
                   EXPECT_EQ(calls, 0);
                   while (calls < 2) stream.poll();
                   expect_error(ErrorKind::timeout, {"barrier #1", "rank 1"}, [&] { late.wait(); });
                 },
                 {.timeout = 60s});
}

TEST(Failures, AReceiveFromAnyRankHearsOfOneThatFailedAndOfThoseThatLeft) {
  run_as_threads(3, [](Communicator comm) {
    if (comm.rank() == 1) comm.give_up(Error(ErrorKind::system, "the disk is full"));
    if (comm.rank() != 0) return;
    Stream stream;
    std::vector<float> data(3);
    expect_error(ErrorKind::peer_lost, {"send/receive group #1", "rank 1 failed: the disk is full"},
                 [&] { Group(comm).receive_any(View(std::span(data)), 5).start(stream).wait(); });
  });
  run_as_threads(3, [](Communicator comm) {
    if (comm.rank() != 0) return;
    Stream stream;
    std::vector<float> data(3);
    expect_error(ErrorKind::peer_lost, {"has left the communicator"},
                 [&] { Group(comm).receive_any(View(std::span(data)), 5).start(stream).wait(); });
  });
  run_as_threads(2, [](Communicator comm) {
    Stream stream;
    comm.timeout(100ms);
    std::vector<float> data(3);
    if (comm.rank() == 0) {
      expect_error(ErrorKind::timeout, {"any rank to send 3 f32 (tag 5)"},
                   [&] { Group(comm).receive_any(View(std::span(data)), 5).start(stream).wait(); });
    } else {
      comm.timeout(60s);
      expect_error(ErrorKind::peer_lost, {"rank 0 failed"}, [&] { comm.barrier(stream).wait(); });
    }
  });
}

TEST(Failures, ATaggedMessageOfAnotherSizeIsAMismatchAlsoWhereItWasPutAside) {
  for (const bool is_put_aside : {false, true}) {
    run_as_threads(2, [&](Communicator comm) {
      std::vector<float> data(10);
      const View view{std::span(data)};
      if (comm.rank() == 0) {
        Stream stream;
        try {
          Group(comm).send(view, 1, 5).start(stream).wait();
          Group(comm).send(view, 1, 6).start(stream).wait();
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
        }
        return;
      }
      Stream stream;
      if (is_put_aside) Group(comm).receive(view, 0, 6).start(stream).wait();
      expect_error(ErrorKind::mismatch, {"rank 0 sent 10 f32 (tag 5) where rank 1 receives 9 f32"},
                   [&] { Group(comm).receive(view.slice(0, 9), 0, 5).start(stream).wait(); });
    });
  }
}

TEST(Failures, AnOperationThatWasDroppedIsHeardOf) {
  std::atomic<bool> dropped = false;
  run_as_threads(2, [&](Communicator comm) {
    Stream stream;
    const auto go_on = [&] {
      for (int i = 0; i < 40; ++i) comm.barrier(stream).wait();
    };
    if (comm.rank() == 1) {
      while (!dropped) std::this_thread::sleep_for(1ms);
      expect_error(ErrorKind::peer_lost, {"rank 0 failed", "left an operation"}, go_on);
      return;
    }
    try {
      Stream doomed;
      comm.barrier(doomed);
      throw std::runtime_error("a step failed");
    } catch (const std::runtime_error&) {
      dropped = true;  // and goes on with the same communicator, which it should not
    }
    expect_error(ErrorKind::peer_lost, {"rank 0 failed", "left an operation"}, go_on);
  });
}

TEST(Failures, AnOperationWhoseStreamStandsStillHoldsNobodyUpForEver) {
  std::atomic<bool> released = false;
  run_as_threads(2,
                 [&](Communicator comm) {
                   Stream stream;
                   const auto go_on = [&] {
                     for (int i = 0; i < 40; ++i) comm.barrier(stream).wait();
                   };
                   if (comm.rank() == 1) {
                     EXPECT_THROW(go_on(), Error);  // its own deadline, or the word that the other has failed
                     released = true;
                     return;
                   }
                   Stream blocked = Stream::queued();
                   blocked.run([&] {
                     while (!released) std::this_thread::sleep_for(1ms);
                   });
                   comm.barrier(blocked);
                   EXPECT_THROW(go_on(), Error);
                   while (!released) std::this_thread::sleep_for(1ms);
                 },
                 {.timeout = short_timeout});
}

// A slot must stay until all ranks have read it, also for an operation that is over after one barrier phase.
TEST(Failures, ARankThatIsFarAheadIsNotAMismatch) {
  std::atomic<bool> first_posted = false;
  std::atomic<bool> all_posted = false;
  run_as_threads(2, [&](Communicator comm) {
    std::vector<Stream> streams(40);
    std::vector<Work> works;
    if (comm.rank() == 1) {
      works.push_back(comm.barrier(streams[0]));  // posted, and not looked at before the other is far ahead
      first_posted = true;
      while (!all_posted) std::this_thread::yield();
    } else {
      while (!first_posted) std::this_thread::yield();
    }
    for (std::size_t i = works.size(); i < streams.size(); ++i) works.push_back(comm.barrier(streams[i]));
    all_posted = true;
    for (const Work& work : works) work.wait();
  });
}

TEST(Failures, TheDeadlineBeginsWhenTheStreamGetsThere) {
  run_as_threads(2,
                 [](Communicator comm) {
                   Stream stream = Stream::queued();
                   // Longer than the timeout, and not the peers' fault.
                   stream.run([&] { std::this_thread::sleep_for(short_timeout + 100ms); });
                   comm.barrier(stream).wait();
                 },
                 {.timeout = short_timeout});
}

TEST(Failures, ARankThatLeavesOrFailsIsNamedLongBeforeTheDeadline) {
  run_as_threads(2, [](Communicator comm) {
    Stream stream;
    if (comm.rank() == 1) return;
    expect_error(ErrorKind::peer_lost,
                 {"barrier #1", "rank 1 has left", "different numbers of batches", "GradientReducer::join()"},
                 [&] { comm.barrier(stream).wait(); });
  });
  // Nobody sends to rank 0: its own deadline breaks it, and the others hear why when they come.
  std::atomic<bool> broken = false;
  std::atomic<int> heard = 0;
  run_as_threads(
      3,
      [&](Communicator comm) {
        Stream stream;
        std::vector<float> data(1);
        const View view{std::span(data)};
        if (comm.rank() == 0) {
          expect_error(ErrorKind::timeout, {"rank 2 to send"},
                       [&] { Group(comm).receive(view, 2).start(stream).wait(); });
          broken = true;
          while (heard < 2) std::this_thread::sleep_for(1ms);
          return;
        }
        while (!broken) std::this_thread::sleep_for(1ms);
        const char* const teller = comm.rank() == 2 ? "rank 0 failed: waited" : "another rank waited";
        expect_error(ErrorKind::peer_lost, {teller, "rank 2 to send"}, [&] { comm.barrier(stream).wait(); });
        ++heard;
      },
      {.timeout = short_timeout});
}

// A process that is stopped for longer than the timeout, and goes on: the others have given up and freed their memory, which
// reads as zero. It had ended well, with a sum of zeros.
TEST(Failures, ARankThatWasHeldUpDoesNotSumWhatTheOthersHaveFreed) {
  std::atomic<bool> posted = false;
  std::atomic<int> freed = 0;
  run_as_threads(
      3,
      [&](Communicator comm) {
        Stream stream;
        Buffer memory = comm.allocate(DataType::f32, 3 << 10);
        auto* const first = static_cast<float*>(memory.view().data());
        std::fill_n(first, memory.view().count(), 1.0F);
        if (comm.rank() == 2) {
          const Work work = comm.all_reduce(memory.view(), ReduceOp::sum, stream);
          posted = true;  // and nothing looks at it meanwhile
          while (freed < 2) std::this_thread::sleep_for(1ms);
          expect_error(ErrorKind::peer_lost, {"all_reduce #1", "failed", "waited "}, [&] { work.wait(); });
          ++freed;
          return;
        }
        while (!posted) std::this_thread::sleep_for(1ms);
        expect_error(ErrorKind::timeout, {"all_reduce #1", "rank 2"},
                     [&] { comm.all_reduce(memory.view(), ReduceOp::sum, stream).wait(); });
        std::fill_n(first, memory.view().count(), 0.0F);
        ++freed;
        while (freed < 3) std::this_thread::sleep_for(1ms);
      },
      {.timeout = short_timeout});
}

TEST(Failures, AMessageWhoseSenderGaveUpIsNotReceived) {
  std::atomic<int> step = 0;
  run_as_threads(2,
                 [&](Communicator comm) {
                   Stream stream;
                   Buffer memory = comm.allocate(DataType::f32, 3 << 10);
                   if (comm.rank() == 1) {
                     while (step < 1) std::this_thread::sleep_for(1ms);
                     expect_error(ErrorKind::peer_lost, {"rank 0 failed", "rank 1 to receive"},
                                  [&] { Group(comm).receive(memory.view(), 0).start(stream).wait(); });
                     ++step;
                     return;
                   }
                   expect_error(ErrorKind::timeout, {"rank 1 to receive"},
                                [&] { Group(comm).send(memory.view(), 1).start(stream).wait(); });
                   ++step;
                   while (step < 2) std::this_thread::sleep_for(1ms);
                 },
                 {.timeout = short_timeout});
}

TEST(Failures, ARankThatFailsIsHeardByThoseWhoWaitAlready) {
  std::atomic<bool> waits = false;
  std::atomic<bool> heard = false;
  run_as_threads(3, [&](Communicator comm) {
    Stream stream;
    std::vector<float> data(10);
    const View view{std::span(data)};
    if (comm.rank() == 1) {
      const Work barrier = comm.barrier(stream);
      waits = true;
      expect_error(ErrorKind::mismatch, {"barrier #1", "rank 2 sent 10 f32", "rank 0 receives 9 f32"},
                   [&] { barrier.wait(); });
      heard = true;
      return;
    }
    while (!waits) std::this_thread::sleep_for(1ms);
    if (comm.rank() == 2) {
      EXPECT_THROW(Group(comm).send(view, 0).start(stream).wait(), Error);
    } else {
      expect_error(ErrorKind::mismatch, {"rank 2 sent 10 f32", "rank 0 receives 9 f32"},
                   [&] { Group(comm).receive(view.slice(0, 9), 2).start(stream).wait(); });
    }
    while (!heard) std::this_thread::sleep_for(1ms);
  });
}

TEST(Failures, ARankThatUnwindsWithWorkPendingIsHeardToLeave) {
  run_as_threads(2,
                 [](Communicator comm) {
                   if (comm.rank() == 0) {
                     Stream stream;
                     expect_error(ErrorKind::peer_lost, {"rank 1 failed: left an operation"},
                                  [&] { comm.barrier(stream).wait(); });
                     return;
                   }
                   try {
                     const Communicator mine = std::move(comm);
                     Stream stream;
                     std::vector<float> data(1);
                     Group(mine).receive(View(std::span(data)), 0).start(stream);
                     throw 1;
                   } catch (int) {
                   }
                   std::this_thread::sleep_for(200ms);
                 },
                 {.timeout = 60s});
}

// What failed before it on its stream is the reason, for this rank as well, whatever it issues elsewhere meanwhile.
TEST(Failures, WhoWaitsForADroppedOperationHearsWhyItWasDropped) {
  run_as_threads(2, [](Communicator comm) {
    std::vector<float> data(10);
    const View view{std::span(data)};
    if (comm.rank() == 1) {
      Stream stream;
      expect_error(ErrorKind::peer_lost, {"rank 0 failed", "the disk of step 7 is full"},
                   [&] { comm.all_reduce(view, ReduceOp::sum, stream).wait(); });
      return;
    }
    Stream stream = Stream::queued();
    stream.run([] { throw Error(ErrorKind::system, "the disk of step 7 is full"); });
    const Work dropped = comm.all_reduce(view, ReduceOp::sum, stream);
    expect_error(ErrorKind::system, {"the disk of step 7 is full"}, [&] { dropped.wait(); });
    Stream other;
    expect_error(ErrorKind::system, {"the disk of step 7 is full"},
                 [&] { comm.all_reduce(view, ReduceOp::sum, other).wait(); });
  });
}

TEST(Failures, AMessageOfAnotherSizeIsAMismatch) {
  for (const bool shared_memory : {true, false}) {
    run_as_threads(2,
                   [](Communicator comm) {
                     Stream stream;
                     std::vector<float> data(10);
                     if (comm.rank() == 0) {
                       try {
                         Group(comm).send(View(std::span(data)), 1).start(stream).wait();
                         ADD_FAILURE() << "the sender did not hear of it";
                       } catch (const Error& error) {
                         EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
                       }
                     } else {
                       expect_error(
                           ErrorKind::mismatch, {"rank 0 sent 10 f32", "rank 1 receives 9 f32"}, [&] {
                             Group(comm).receive(View(std::span(data)).slice(0, 9), 0).start(stream).wait();
                           });
                     }
                   },
                   {.shared_memory = shared_memory});
  }
}

}  // namespace
}  // namespace weft::test
