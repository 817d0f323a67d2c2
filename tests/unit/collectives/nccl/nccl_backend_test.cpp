// The NCCL backend's logic over a fake NCCL and a fake CUDA: who is missing, who disagrees, what is void
// after it.

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/ranks_with_fakes.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using detail::nccl::version_code;

/// For what must run into its deadline: long beside the time for which a busy machine may hold a thread up.
constexpr auto time_limit = 2s;

class NcclBackend : public testing::Test {
 protected:
  WithFakeCuda cuda_;
  FakeNcclRanks nccl_;
};

TEST_F(NcclBackend, WhoDoesNotComeIsNamedAtTheDeadlineAndWhatWaitedForItIsVoid) {
  std::atomic<bool> over = false;
  run_with_fakes(
      nccl_, 2,
      [&](Communicator comm) {
        Stream wire(comm.device());
        Stream compute(comm.device());
        Buffer data = comm.allocate(DataType::f32, 10);
        comm.all_reduce(data.view(), ReduceOp::sum, wire).wait();
        if (comm.rank() == 1) {
          while (!over) std::this_thread::sleep_for(1ms);
          expect_error(ErrorKind::peer_lost, {"rank 1: all_reduce #2", "rank 0 failed: waited "},
                       [&] { comm.all_reduce(data.view(), ReduceOp::sum, wire).wait(); });
          return;
        }
        const Work work = comm.all_reduce(data.view(), ReduceOp::sum, wire);
        compute.wait(wire.record());
        const Event after = compute.record();
        expect_error(ErrorKind::timeout,
                     {"rank 0: all_reduce #2", "s for rank 1 (its last device operation is #1)"},
                     [&] { work.wait(); });
        expect_error(ErrorKind::timeout, {"for rank 1"}, [&] { after.wait(Deadline::in(10s)); });
        expect_error(ErrorKind::timeout, {"for rank 1"},
                     [&] { comm.all_reduce(data.view(), ReduceOp::sum, wire).wait(); });
        over = true;
      },
      time_limit);
  EXPECT_EQ(nccl_.communicators, 0);
}

TEST_F(NcclBackend, RanksThatDisagreeAreToldWhatBothDid) {
  run_with_fakes(
      nccl_, 2,
      [&](Communicator comm) {
        Stream stream(comm.device());
        Buffer data = comm.allocate(DataType::f32, 10);
        const std::int64_t count = 10 - comm.rank();
        // The rank that looks second may hear that the first has failed, with the same words in it.
        try {
          comm.all_reduce(data.view().slice(0, count), ReduceOp::sum, stream).wait();
          comm.barrier(stream).wait();  // a sum of different lengths may have ended before a rank looked
          comm.barrier(stream).wait();
        } catch (const Error& error) {
          const std::string line = error.what();
          if (line.find("ranks disagree") == std::string::npos)
            EXPECT_NE(line.find("failed"), std::string::npos) << line;
          else
            EXPECT_NE(line.find("rank 0 issued all_reduce #1 of 10 f32 (sum, root 0), rank 1 issued "
                                "all_reduce #1 of 9 f32 (sum, root 0)"),
                      std::string::npos)
                << line;
        }
      },
      time_limit);
}

TEST_F(NcclBackend, ARankThatLeavesIsNamedLongBeforeTheDeadline) {
  EXPECT_THROW(run_with_fakes(nccl_, 2,
                              [&](Communicator comm) {
                                Stream stream(comm.device());
                                Buffer data = comm.allocate(DataType::f32, 10);
                                if (comm.rank() == 1) throw std::runtime_error("out of ideas");
                                const auto begin = std::chrono::steady_clock::now();
                                expect_error(ErrorKind::peer_lost, {"rank 0: all_reduce #1", "rank 1 "}, [&] {
                                  comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
                                });
                                EXPECT_LT(std::chrono::steady_clock::now() - begin, 50s);
                              }),
               std::runtime_error);
}

TEST_F(NcclBackend, WhatNcclMeetsBetweenCallsEndsTheWait) {
  std::atomic<bool> heard = false;
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::f32, 10);
    if (comm.rank() == 1) {
      while (!heard) std::this_thread::sleep_for(1ms);
      return;
    }
    const Work work = comm.all_reduce(data.view(), ReduceOp::sum, stream);
    nccl_.fail(0, detail::nccl::remote_error);
    expect_error(ErrorKind::peer_lost,
                 {"rank 0: all_reduce #1", "remote process exited", "socket closed by the fake"},
                 [&] { work.wait(); });
    nccl_.fail(0, detail::nccl::success);
    heard = true;
  });
}

TEST_F(NcclBackend, WhatNcclMeetsInACallNamesTheOperation) {
  run_with_fakes(nccl_, 1, [&](Communicator comm) {
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::f32, 10);
    nccl_.fail(0, detail::nccl::remote_error);
    expect_error(ErrorKind::peer_lost,
                 {"rank 0: all_reduce #1", "remote process exited", "socket closed by the fake"},
                 [&] { comm.all_reduce(data.view(), ReduceOp::sum, stream).wait(); });
    nccl_.fail(0, detail::nccl::success);
  });
}

TEST_F(NcclBackend, TheDeadlineBeginsWhenTheStreamGetsThere) {
  run_with_fakes(
      nccl_, 2,
      [&](Communicator comm) {
        Stream stream(comm.device());
        Buffer data = comm.allocate(DataType::f32, 10);
        stream.run([&] {
          FakeCuda::enqueue(native_handle(stream), [] { std::this_thread::sleep_for(time_limit + 200ms); });
        });
        comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
      },
      time_limit);
}

TEST_F(NcclBackend, ACallThatNcclDoesNotEndNamesTheRankThatDied) {
  EXPECT_THROW(run_with_fakes(nccl_, 2,
                              [&](Communicator comm) {
                                Stream stream(comm.device());
                                Buffer data = comm.allocate(DataType::f32, 10);
                                comm.barrier(stream).wait();
                                if (comm.rank() == 1) throw std::runtime_error("out of ideas");
                                nccl_.stuck = 0;  // as at the first operation, when NCCL connects the ranks
                                expect_error(ErrorKind::peer_lost, {"rank 0: all_reduce #2", "rank 1 "}, [&] {
                                  comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
                                });
                                nccl_.stuck = -1;
                              }),
               std::runtime_error);
}

// On rank 0 the first stream waits for the host; NCCL pairs what ranks hand over by its order alone.
TEST_F(NcclBackend, AStreamThatTheHostHoldsUpIsNotOvertaken) {
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    auto other = comm.split(0);
    Stream host = Stream::queued();
    Stream held(comm.device());
    Stream free(comm.device());
    std::array<Buffer, 3> data;
    std::array<std::array<std::int64_t, 10>, 3> values;
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = Buffer::on(comm.device(), DataType::i64, 10);
      values[i].fill(static_cast<std::int64_t>(i + 1));
      copy(data[i].view(), ConstView(std::span(values[i])), free);
    }
    free.synchronize();
    if (comm.rank() == 0) {
      host.run([] { std::this_thread::sleep_for(100ms); });
      held.wait(host.record());
    }
    comm.all_reduce(data[0].view(), ReduceOp::sum, held);
    comm.all_reduce(data[1].view(), ReduceOp::sum, free);
    other->all_reduce(data[2].view(), ReduceOp::sum, free).wait();
    held.synchronize();
    for (std::size_t i = 0; i < data.size(); ++i) {
      copy(View(std::span(values[i])), data[i].view(), free);
      free.synchronize();
      EXPECT_EQ(values[i][9], static_cast<std::int64_t>(2 * (i + 1)));
    }
  });
  EXPECT_EQ(nccl_.handed_over(0), nccl_.handed_over(1));
  EXPECT_GE(nccl_.handed_over(0).size(), 5U);  // two to connect, and these
}

TEST_F(NcclBackend, AnOperationThatTheHostHoldsUpForGoodIsNamedByTheNext) {
  run_with_fakes(
      nccl_, 1,
      [&](Communicator comm) {
        auto other = comm.split(0);
        Buffer data = Buffer::on(comm.device(), DataType::f32, 10);
        std::atomic<bool> open = false;
        Stream host = Stream::queued();
        host.run([&] {
          while (!open) std::this_thread::sleep_for(1ms);
        });
        Stream held(comm.device());
        Stream free(comm.device());
        held.wait(host.record());
        other->all_reduce(data.view(), ReduceOp::sum, held);
        const Work work = comm.barrier(free);
        expect_error(ErrorKind::timeout,
                     {"rank 0: barrier #1: waited ", "s for all_reduce #1, which was issued before it"},
                     [&] { work.wait(Deadline::in(30s)); });
        open = true;
        held.synchronize(Deadline::in(30s));
      },
      time_limit);
}

// Whose memory comes late, or not at all.
TEST_F(NcclBackend, MemoryThatNotAllRanksRegisterNamesTheRankThatDied) {
  EXPECT_THROW(run_with_fakes(nccl_, 2,
                              [&](Communicator comm) {
                                if (comm.rank() == 1) throw std::runtime_error("out of ideas");
                                expect_error(ErrorKind::peer_lost, {"rank 1 "},
                                             [&] { comm.allocate(DataType::f32, 10); });
                              }),
               std::runtime_error);
}

// What a stream drops is not waited for.
TEST_F(NcclBackend, AnOperationThatIsDroppedGivesItsTurnUp) {
  run_with_fakes(nccl_, 1, [&](Communicator comm) {
    auto other = comm.split(0);
    Buffer data = Buffer::on(comm.device(), DataType::f32, 10);
    std::atomic<bool> open = false;
    Stream host = Stream::queued();
    host.run([&] {
      while (!open) std::this_thread::sleep_for(1ms);
    });
    try {
      Stream held(comm.device());
      held.wait(host.record());
      other->all_reduce(data.view(), ReduceOp::sum, held);
      throw std::runtime_error("out of ideas");
    } catch (const std::runtime_error&) {
      Stream free(comm.device());
      comm.all_reduce(data.view(), ReduceOp::sum, free).wait(Deadline::in(30s));
    }
    open = true;
  });
}

TEST_F(NcclBackend, AnOperationOnACapturedStreamIsRefusedAndHasNoNumber) {
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::f32, 10);
    if (comm.rank() == 1) {
      FakeCuda::capture(native_handle(stream), true);
      expect_error(ErrorKind::usage, {"rank 1: all_reduce", "is being captured into a CUDA graph"},
                   [&] { comm.all_reduce(data.view(), ReduceOp::sum, stream); });
      FakeCuda::capture(native_handle(stream), false);
    }
    for (int step = 0; step < 3; ++step) comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
  });
}

TEST_F(NcclBackend, AMeanIsNotScaledByARoundedFraction) {
  run_with_fakes(nccl_, 3, [&](Communicator comm) {
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::bf16, 4);
    std::vector<BFloat16> values(4, BFloat16(3.0F));
    copy(data.view(), ConstView(std::span(values)), stream);
    comm.all_reduce(data.view(), ReduceOp::avg, stream);
    copy(View(std::span(values)), data.view(), stream);
    stream.synchronize();
    EXPECT_EQ(values[0].bits, BFloat16(3.0F).bits);  // 9 * bf16(1/3) would be 3.0059
  });
}

TEST_F(NcclBackend, WorkGoesOnWithoutItsCommunicatorsHandle) {
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    Stream stream(Device::cuda(comm.rank()));
    Buffer data = Buffer::on(comm.device(), DataType::i64, 3);
    {
      const Communicator last = std::exchange(comm, self());
      Communicator(last).all_reduce(data.view(), ReduceOp::sum, stream);
    }
    stream.synchronize(Deadline::in(30s));
  });
  EXPECT_EQ(nccl_.communicators, 0);
}

TEST_F(NcclBackend, MemoryThatNcclRefusesIsOneClearLineAndNoneIsLost) {
  run_with_fakes(nccl_, 1, [&](Communicator comm) {
    nccl_.refuse("MemAlloc", detail::nccl::unhandled_cuda_error);
    expect_error(ErrorKind::system, {"NCCL cannot allocate 4000 bytes on cuda:0", "free memory"},
                 [&] { comm.allocate(DataType::f32, 1000); });
    nccl_.refuse("MemAlloc", detail::nccl::success);
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::f32, 1000);  // and the communicator is as good as before
    comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
  });
  EXPECT_EQ(nccl_.blocks, 0);
  // What refuses a registration stays the communicator's state.
  for (const auto& [result, kind] : {std::pair(detail::nccl::invalid_argument, ErrorKind::usage),
                                     std::pair(detail::nccl::unhandled_cuda_error, ErrorKind::system)}) {
    run_with_fakes(nccl_, 1, [&](Communicator comm) {
      Stream stream(comm.device());
      Buffer data = comm.allocate(DataType::f32, 1000);
      nccl_.refuse("CommWindowRegister", result);
      expect_error(kind, {"rank 0: register", "NCCL 2.28.9"}, [&] { comm.allocate(DataType::f32, 1000); });
      expect_error(kind, {"register"}, [&] { comm.all_reduce(data.view(), ReduceOp::sum, stream).wait(); });
      nccl_.refuse("CommWindowRegister", detail::nccl::success);
    });
    EXPECT_EQ(nccl_.blocks, 0);
  }
}

TEST_F(NcclBackend, ThreadsOfItsOwnLeaveOtherDevicesAlone) {
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    const detail::cuda::Current as_trainers_do(*detail::cuda::runtime(), comm.device().index());
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::f32, 10);
    stream.run([&] { FakeCuda::enqueue(native_handle(stream), [] { std::this_thread::sleep_for(100ms); }); });
    comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
    EXPECT_EQ(cuda_->strayed, 0);
  });
}

TEST_F(NcclBackend, OperationsAreTracedInTheDevicesTime) {
  const auto trace = std::make_shared<Trace>();
  {
    const Communicator comm = connect_with_fakes(nccl_, make_memory_store(), 0, 1, 10s, trace);
    Stream stream(comm.device());
    Buffer data = Buffer::on(comm.device(), DataType::f32, 10);
    std::atomic<bool> open = false;
    stream.run([&] {
      FakeCuda::enqueue(native_handle(stream), [&] {
        while (!open) std::this_thread::yield();
      });
    });
    Communicator(comm).all_reduce(data.view(), ReduceOp::sum, stream);
    EXPECT_EQ(trace->size(), 0U);
    open = true;
    stream.synchronize(Deadline::in(30s));
  }
  EXPECT_EQ(trace->size(), 1U);
  EXPECT_NE(trace->json().find("all_reduce #1"), std::string::npos);
}

TEST_F(NcclBackend, MemoryOfOthersIsRegisteredAsLongAsItIsAskedTo) {
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    const int before = nccl_.registered;
    comm.barrier(Stream()).wait();
    Buffer theirs = Buffer::on(comm.device(), DataType::f32, 10);
    auto part = comm.split(0);
    {
      const auto registration = comm.register_memory(theirs.view());
      const auto with_part = part->register_memory(theirs.view());
      comm.barrier(Stream()).wait();
      EXPECT_EQ(nccl_.registered, before + 4);
      comm.barrier(Stream()).wait();
    }
    comm.barrier(Stream()).wait();
    EXPECT_EQ(nccl_.registered, before);
    Buffer on_host = Buffer::on_host(DataType::f32, 10);
    expect_error(ErrorKind::usage, {"register: memory on host registered with a communicator of cuda:"},
                 [&] { (void)comm.register_memory(on_host.view()); });
  });
}

TEST_F(NcclBackend, ItsStreamGoesFirst) {
  run_with_fakes(nccl_, 2, [&](const Communicator& comm) {
    EXPECT_TRUE(FakeCuda::is_first(native_handle(comm.progress_stream())));
    EXPECT_FALSE(FakeCuda::is_first(native_handle(Stream(comm.device()))));
  });
}

TEST_F(NcclBackend, WhereNcclGivesNoWindowNoneIsGivenBack) {
  nccl_.reachable = false;
  run_with_fakes(nccl_, 2, [&](Communicator comm) {
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::f32, 1000);
    comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
  });
  EXPECT_EQ(nccl_.windows, 0);
  EXPECT_EQ(nccl_.blocks, 0);
}

TEST_F(NcclBackend, WhatNcclRefusesIsTheOperationsError) {
  for (const std::string function : {"GroupStart", "Send", "AllReduce"}) {
    SCOPED_TRACE(function);
    FakeNcclRanks nccl;
    run_with_fakes(nccl, 1, [&](Communicator comm) {
      Stream stream(comm.device());
      Buffer data = Buffer::on(comm.device(), DataType::f32, 10);
      Buffer other = Buffer::on(comm.device(), DataType::f32, 10);
      nccl.refuse(function, detail::nccl::internal_error);
      const bool is_group = function != "AllReduce";
      const Work work = is_group ? Group(comm).send(data.view(), 0).receive(other.view(), 0).start(stream)
                                 : comm.all_reduce(data.view(), ReduceOp::sum, stream);
      expect_error(ErrorKind::system, {is_group ? "rank 0: send/receive group" : "rank 0: all_reduce"},
                   [&] { work.wait(); });
      expect_error(ErrorKind::system, {"rank 0"}, [&] { comm.barrier(stream).wait(); });
    });
  }
}

TEST_F(NcclBackend, ASplitThatNcclRefusesIsAnError) {
  run_with_fakes(nccl_, 1, [&](Communicator comm) {
    nccl_.refuse("CommSplit", detail::nccl::system_error);
    expect_error(ErrorKind::system, {"rank 0: split"}, [&] { comm.split(0); });
  });
}

TEST_F(NcclBackend, ADriverThatFailsInTheMiddleEndsTheWait) {
  run_with_fakes(nccl_, 1, [&](Communicator comm) {
    Buffer data = Buffer::on(comm.device(), DataType::f32, 10);  // the stream's end comes first
    Stream stream(comm.device());
    comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
    cuda_->refuse_next("divide");
    expect_error(ErrorKind::system, {"the fake refuses divide"},
                 [&] { comm.all_reduce(data.view(), ReduceOp::avg, stream).wait(); });
  });
  run_with_fakes(nccl_, 1, [&](Communicator comm) {
    Buffer data = Buffer::on(comm.device(), DataType::f32, 10);  // the stream's end comes first
    Stream stream(comm.device());
    const Work work = comm.all_reduce(data.view(), ReduceOp::sum, stream);
    cuda_->break_device();
    expect_error(ErrorKind::system, {"work on a stream failed"}, [&] { work.wait(); });
  });
}

TEST(NcclVersions, MemoryIsRegisteredAsTheVersionHasIt) {
  struct Case {
    int version;
    int registered;
    int windows;
  };
  for (const Case& one : {Case{version_code(2, 18, 1), 0, 0}, Case{version_code(2, 19, 3), 2, 0},
                          Case{version_code(2, 27, 3), 0, 2}, Case{version_code(2, 30, 7), 0, 2}}) {
    SCOPED_TRACE(detail::nccl::version_text(one.version));
    const WithFakeCuda cuda;
    FakeNcclRanks nccl(one.version);
    run_with_fakes(nccl, 2, [&](Communicator comm) {
      EXPECT_EQ(comm.backend(), "nccl " + detail::nccl::version_text(one.version) + " + threads");
      Stream stream(comm.device());
      Buffer outlives;
      {
        Buffer data = comm.allocate(DataType::f32, 10);
        EXPECT_EQ(data.view().device(), comm.device());
        comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
        comm.barrier(stream).wait();
        EXPECT_EQ(nccl.registered, one.registered);
        EXPECT_EQ(nccl.windows, one.windows);
        comm.barrier(stream).wait();
        outlives = comm.allocate(DataType::f32, 10);
      }
      EXPECT_EQ(comm.allocate(DataType::f32, 0).view().device(), comm.device());
      { const Communicator last = std::exchange(comm, self()); }
    });
    EXPECT_EQ(nccl.communicators, 0);
  }
}

}  // namespace
}  // namespace weft::test
