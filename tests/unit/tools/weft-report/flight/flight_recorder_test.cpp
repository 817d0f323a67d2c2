// What ranks write is what the reader reads: real recorders, and the reader that refuses all else.

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <filesystem>
#include <thread>

#include "support/expect_error.hpp"
#include "support/ranks_with_fakes.hpp"
#include "support/temporary_folder.hpp"
#include "weft-report/flight/flight.hpp"
#include "weft/core/log.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft::report {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

class RecordedFlights : public testing::Test {
 protected:
  // That each record was written is said, and expected here.
  RecordedFlights() {
    log::set_sink([](log::Level, std::string_view) {});
  }
  ~RecordedFlights() override { log::set_sink(nullptr); }

  using Body = std::function<void(Communicator)>;

  /// Ranks as threads, each with a recorder of its own. Their errors are the body's to expect.
  void fly(int ranks, const Body& body, std::chrono::nanoseconds timeout = 1min) {
    const auto store = make_memory_store();
    detail::on_threads(ranks, [&](int rank) {
      auto rendezvous = make_store_rendezvous(store, "flights", rank, ranks);
      const Topology topology(std::vector<std::string>(static_cast<std::size_t>(ranks), "threads"));
      body(detail::make_communicator(detail::make_threads_backend(rendezvous, {.timeout = timeout}),
                                     rendezvous, topology, timeout, nullptr,
                                     {.recorder = recorder(rank, ranks)}));
    });
  }
  std::shared_ptr<FlightRecorder> recorder(int rank, int ranks) const {
    return std::make_shared<FlightRecorder>(rank, ranks, folder_.path());
  }
  std::vector<FlightRecord> records() const { return read_flights(folder_.path()); }

  test::TemporaryFolder folder_;
};

const FlightCommunicator& named(const FlightRecord& record, const std::string& name) {
  const auto found = std::ranges::find(record.communicators, name, &FlightCommunicator::name);
  if (found == record.communicators.end())
    throw Error(ErrorKind::usage, text("rank ", record.rank, " knows no '", name, "'"));
  return *found;
}

/// No rank waits at a barrier for a rank that has ended, for whatever reason.
struct Leaves {
  std::barrier<>& met;
  explicit Leaves(std::barrier<>& at) : met(at) {}
  ~Leaves() { met.arrive_and_drop(); }
  Leaves(const Leaves&) = delete;
  Leaves& operator=(const Leaves&) = delete;
};

TEST_F(RecordedFlights, OfRanksThatAreWellAreReadWhole) {
  fly(3, [](Communicator comm) {
    Stream stream;
    std::vector<float> floats(12, 1.0F);
    std::vector<float> parts(36);
    std::vector<std::int64_t> words(5);
    comm.all_reduce(View(std::span(floats)), ReduceOp::avg, stream).wait();
    comm.broadcast(View(std::span(words)), 2, stream).wait();
    comm.all_gather(ConstView(std::span(floats)), View(std::span(parts)), stream).wait();
    comm.reduce(ConstView(std::span(words)), View(std::span(words)), ReduceOp::max, 1, stream).wait();
    comm.barrier(stream).wait();
    Group group(comm);
    if (comm.rank() == 0) group.send(View(std::span(words)), 1);
    if (comm.rank() == 1) group.receive(View(std::span(words)), 0);
    group.start(stream).wait();
    auto part = comm.split(comm.rank() == 1 ? 1 : 0, -comm.rank());
    part->barrier(stream).wait();
    comm.flight_recorder()->dump("signal");
    comm.barrier(stream).wait();
  });
  const auto all = records();
  ASSERT_EQ(all.size(), 3U);
  for (const FlightRecord& record : all) {
    EXPECT_EQ(record.file, text("rank-", record.rank, ".json"));
    EXPECT_EQ(record.size, 3);
    EXPECT_EQ(record.pid, getpid());
    EXPECT_FALSE(record.host.empty());
    EXPECT_EQ(record.reason, "signal");
    EXPECT_FALSE(record.failed());
    ASSERT_EQ(record.communicators.size(), 2U);
    const FlightCommunicator& world = named(record, "world");
    EXPECT_EQ(world.ranks, (std::vector<int>{0, 1, 2}));
    const auto& on_host = world.on(Lane::host);
    ASSERT_EQ(on_host.size(), 5U);
    for (std::size_t i = 0; i < on_host.size(); ++i) {
      EXPECT_EQ(on_host[i].number, i + 1);
      EXPECT_EQ(on_host[i].state, State::done);
    }
    EXPECT_TRUE(on_host[0].agrees_with(
        {.count = 12, .kind = Collective::all_reduce, .dtype = DataType::f32, .op = ReduceOp::avg}));
    EXPECT_TRUE(on_host[1].agrees_with(
        {.count = 5, .root = 2, .kind = Collective::broadcast, .dtype = DataType::i64}));
    EXPECT_TRUE(
        on_host[2].agrees_with({.count = 12, .kind = Collective::all_gather, .dtype = DataType::f32}));
    EXPECT_TRUE(on_host[3].agrees_with(
        {.count = 5, .root = 1, .kind = Collective::reduce, .dtype = DataType::i64, .op = ReduceOp::max}));
    EXPECT_EQ(on_host[4].kind, Collective::barrier);
    ASSERT_EQ(world.on(Lane::group).size(), 1U);
    EXPECT_EQ(world.on(Lane::group)[0].number, 1U);
    EXPECT_EQ(world.on(Lane::group)[0].state, State::done);
    EXPECT_TRUE(world.on(Lane::device).empty());
  }
  EXPECT_EQ(named(all[0], "world/1:0").ranks, (std::vector<int>{2, 0}));
  EXPECT_EQ(named(all[1], "world/1:1").ranks, (std::vector<int>{1}));
  EXPECT_EQ(named(all[2], "world/1:0").ranks, (std::vector<int>{2, 0}));
  EXPECT_TRUE(examine(all).empty());
}

TEST_F(RecordedFlights, OnTheProgramsOwnWordAreRead) {
  fly(1, [](Communicator comm) { comm.flight_recorder()->dump("before the \"risky\"\npart"); });
  EXPECT_EQ(records().at(0).reason, "before the \"risky\"\npart");
}

TEST_F(RecordedFlights, TellHowFarGradientsAre) {
  const ParamLayout layout(DataType::f32, {{"block \"1\".weight", 100}, {"bias\t", 7}, {"head", 64}});
  fly(1, [&](Communicator comm) {
    Stream compute;
    GradientReducer reducer(comm, layout);
    reducer.begin_step();
    reducer.mark_ready(ParamId{2}, compute);
    comm.flight_recorder()->dump("signal");
    for (const int parameter : {1, 0}) reducer.mark_ready(ParamId{parameter}, compute);
    reducer.finish_step(compute);
  });
  const auto all = records();
  ASSERT_EQ(all.at(0).progress.size(), 1U);
  const FlightProgress& progress = all[0].progress[0];
  EXPECT_EQ(progress.track, "gradients");
  EXPECT_EQ(progress.step, 1);
  EXPECT_EQ(progress.waits_for, (std::vector<std::string>{"block \"1\".weight", "bias\t"}));
  EXPECT_EQ(progress.waits_for_count, 2);
}

TEST_F(RecordedFlights, HoldTheNewestOperations) {
  fly(1, [](Communicator comm) {
    Stream stream;
    for (int i = 0; i < 1500; ++i) comm.barrier(stream).wait();
    comm.flight_recorder()->dump("signal");
  });
  const auto all = records();
  const auto& operations = named(all.at(0), "world").on(Lane::host);
  ASSERT_EQ(operations.size(), 1024U);
  EXPECT_EQ(operations.front().number, 477U);
  EXPECT_EQ(operations.back().number, 1500U);
}

TEST_F(RecordedFlights, OfRanksThatDisagreeNameTheDivergence) {
  fly(3, [](Communicator comm) {
    Stream stream;
    std::vector<float> floats(comm.rank() == 1 ? 11 : 12);
    comm.barrier(stream).wait();
    expect_error(ErrorKind::mismatch, {"#2 of 11", "#2 of 12"},
                 [&] { comm.all_reduce(View(std::span(floats)), ReduceOp::sum, stream).wait(); });
  });
  const auto all = records();
  ASSERT_EQ(all.size(), 3U);
  for (const FlightRecord& record : all) {
    EXPECT_EQ(record.reason, "error");
    ASSERT_TRUE(record.error);
    EXPECT_EQ(record.error->kind, ErrorKind::mismatch);
    EXPECT_EQ(record.error->operation, "all_reduce");
    EXPECT_EQ(record.error->number, 2U);
    EXPECT_GE(record.error->at_ns, named(record, "world").on(Lane::host)[1].issued_ns);
    EXPECT_LE(record.error->at_ns, record.steady_ns);
    EXPECT_EQ(named(record, "world").on(Lane::host)[1].state, State::failed);
  }
  const auto findings = examine(all);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].cause, "rank-diverged");
  EXPECT_NE(findings[0].verdict.find("rank 1"), std::string::npos) << findings[0].verdict;
}

TEST_F(RecordedFlights, OfRanksThatWaitedInVainNameWhoDidNotCome) {
  std::barrier<> over(3);
  fly(
      3,
      [&](Communicator comm) {
        const Leaves leaves(over);
        Stream stream;
        comm.barrier(stream).wait();
        if (comm.rank() == 2) {
          over.arrive_and_wait();
          comm.flight_recorder()->dump("signal");
        } else {
          EXPECT_THROW(comm.barrier(stream).wait(), Error);
        }
      },
      2s);
  const auto all = records();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(named(all[0], "world").on(Lane::host).back().state, State::failed);
  EXPECT_GT(named(all[0], "world").on(Lane::host).back().begun_ns, 0);
  EXPECT_EQ(named(all[2], "world").on(Lane::host).size(), 1U);
  const auto findings = examine(all);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].cause, "rank-behind") << findings[0].verdict;
  EXPECT_NE(findings[0].verdict.find("rank 2"), std::string::npos) << findings[0].verdict;
}

TEST_F(RecordedFlights, OfARankThatLeftWithAnExceptionSayThatItDid) {
  fly(2, [](Communicator comm) {
    Stream stream;
    comm.barrier(stream).wait();
    EXPECT_THROW(
        {
          const Communicator mine = std::move(comm);
          throw std::runtime_error("the program's own");
        },
        std::runtime_error);
  });
  const auto all = records();
  ASSERT_TRUE(all.at(0).error);
  EXPECT_EQ(all[0].error->kind, ErrorKind::system);
  EXPECT_NE(all[0].error->message.find("an exception of the program's own"), std::string::npos);
  EXPECT_EQ(all[0].error->operation, "");
  EXPECT_EQ(all[0].error->number, 0U);
}

// An error of a floor above, which no operation knows: the record has it, the other rank hears it, and so with the program's own where it
// passes run().
TEST_F(RecordedFlights, OfARankThatLeftWithAnErrorHaveThatError) {
  for (const bool is_wefts : {true, false}) {
    fly(2, [&](Communicator comm) {
      Stream stream;
      comm.barrier(stream).wait();
      if (comm.rank() == 1) {
        test::expect_error(ErrorKind::peer_lost, {"rank 0 failed: parameter 3 has no name"},
                           [&] { comm.barrier(stream).wait(); });
        return;
      }
      const auto leave = [&] {
        Communicator mine = std::move(comm);
        if (is_wefts) throw Error(ErrorKind::system, "parameter 3 has no name");
        mine.run([] { throw std::runtime_error("parameter 3 has no name"); });
      };
      EXPECT_THROW(leave(), std::exception);
    });
    const auto all = records();
    ASSERT_TRUE(all.at(0).error);
    EXPECT_EQ(all[0].error->kind, ErrorKind::system);
    EXPECT_EQ(all[0].error->message, "parameter 3 has no name");
    const auto findings = examine(all);
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings[0].cause, "rank-raised-first") << findings[0].verdict;
    EXPECT_NE(findings[0].verdict.find("parameter 3 has no name"), std::string::npos) << findings[0].verdict;
  }
}

// What a device was given is not over before the device has passed it: rank 0 waits there for rank 1.
TEST_F(RecordedFlights, OfDevicesTellWhatTheyHaveNotDone) {
  test::WithFakeCuda cuda;
  test::FakeNcclRanks nccl;
  const auto store = make_memory_store();
  std::barrier<> met(2);
  std::vector<FlightRecord> meanwhile;
  detail::on_threads(2, [&](int rank) {
    const Leaves leaves(met);
    auto comm =
        test::connect_with_fakes(nccl, store, rank, 2, 1min, nullptr, {.recorder = recorder(rank, 2)});
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::f32, 100);
    comm.all_reduce(data.view(), ReduceOp::sum, stream);
    stream.synchronize(Deadline::in(30s));
    if (rank == 0) comm.all_reduce(data.view(), ReduceOp::sum, stream);
    met.arrive_and_wait();
    comm.flight_recorder()->dump("signal");
    met.arrive_and_wait();
    if (rank == 0) meanwhile = records();
    met.arrive_and_wait();
    if (rank == 1) comm.all_reduce(data.view(), ReduceOp::sum, stream);
    stream.synchronize(Deadline::in(30s));
    comm.flight_recorder()->dump("signal");
  });
  ASSERT_EQ(meanwhile.size(), 2U);
  const auto& waiting = named(meanwhile[0], "world").on(Lane::device);
  ASSERT_EQ(waiting.size(), 2U);
  EXPECT_EQ(waiting[0].state, State::done);
  EXPECT_EQ(waiting[1].state, State::begun);
  EXPECT_EQ(named(meanwhile[1], "world").on(Lane::device).size(), 1U);
  const auto findings = examine(meanwhile);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].cause, "rank-behind");
  EXPECT_NE(findings[0].verdict.find("rank 1"), std::string::npos) << findings[0].verdict;

  const auto after = records();
  for (const FlightRecord& record : after) {
    ASSERT_EQ(named(record, "world").on(Lane::device).size(), 2U);
    for (const FlightOperation& one : named(record, "world").on(Lane::device))
      EXPECT_EQ(one.state, State::done);
  }
  EXPECT_TRUE(examine(after).empty());
}

// NCCL's watchdog finds it, and no rank waits for the operation.
TEST_F(RecordedFlights, OfADeviceThatWaitsInVainAreWrittenAtItsDeadline) {
  test::WithFakeCuda cuda;
  test::FakeNcclRanks nccl;
  const auto store = make_memory_store();
  std::barrier<> met(2);
  detail::on_threads(2, [&](int rank) {
    const Leaves leaves(met);
    auto comm = test::connect_with_fakes(nccl, store, rank, 2, 2s, nullptr, {.recorder = recorder(rank, 2)});
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::f32, 100);
    if (rank == 0) {
      comm.all_reduce(data.view(), ReduceOp::sum, stream);
      for (int i = 0; i < 6000 && !std::filesystem::exists(folder_.path() + "/rank-0.json"); ++i)
        std::this_thread::sleep_for(10ms);
    }
    met.arrive_and_wait();
    if (rank == 1) comm.flight_recorder()->dump("signal");
    met.arrive_and_wait();
    if (rank == 0)
      expect_error(ErrorKind::timeout, {"rank 1"}, [&] { stream.synchronize(Deadline::in(30s)); });
  });
  const auto all = records();
  ASSERT_EQ(all.size(), 2U);
  ASSERT_TRUE(all[0].error);
  EXPECT_EQ(all[0].error->kind, ErrorKind::timeout);
  const auto findings = examine(all);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].cause, "rank-behind");
}

}  // namespace
}  // namespace weft::report
