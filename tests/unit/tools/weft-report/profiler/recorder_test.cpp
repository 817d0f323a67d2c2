// What is recorded, from any threads; what is written of it.

#include "weft-report/profiler/recorder.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "support/draw.hpp"
#include "support/temporary_folder.hpp"
#include "weft-report/profiler/service.hpp"
#include "weft-report/profiler/texts.hpp"

namespace weft::profiler {
namespace {

using weft::test::Draw;

// It is a few MB: not on the stack.
std::unique_ptr<Recorder> new_recorder() {
  return std::make_unique<Recorder>();
}

void run(Recorder& recorder, std::uint64_t communicator, Kind kind, int parts, std::uint64_t count = 10) {
  const std::uint64_t operation = recorder.start(communicator, {.kind = kind,
                                                                .count = count,
                                                                .type = type_of("ncclFloat32"),
                                                                .parts = static_cast<std::uint8_t>(parts)});
  recorder.stop(operation);
  std::vector<std::uint64_t> channels;
  for (int i = 0; i < parts; ++i) channels.push_back(recorder.start_part(operation, 1000));
  for (const std::uint64_t channel : channels) {
    recorder.time_part(channel, 4000);
    recorder.stop(channel);
  }
}

TEST(ProfilerRecorder, NothingIsLostAtEightThreads) {
  const auto recorder = new_recorder();
  constexpr int threads = 8;
  constexpr int each = 3000;
  const std::uint64_t shared = recorder->add({.hash = 1, .ranks = 2, .rank = 0});
  {
    std::vector<std::jthread> all;
    for (int thread = 0; thread < threads; ++thread)
      all.emplace_back([&, thread] {
        const std::uint64_t own = recorder->add({.hash = 2, .ranks = 8, .rank = thread});
        for (int i = 0; i < each; ++i) {
          run(*recorder, own, Kind::all_reduce, 2);
          if (i % 10 == 0) run(*recorder, shared, Kind::all_gather, 3);
          if (i % 1000 == 0) (void)recorder->snapshots();
        }
        if (thread % 2 == 0) recorder->remove(own);
      });
  }
  const Totals totals = recorder->totals();
  const Sums& reduces = totals.sums[static_cast<std::size_t>(Kind::all_reduce)];
  const Sums& gathers = totals.sums[static_cast<std::size_t>(Kind::all_gather)];
  EXPECT_EQ(reduces.operations, static_cast<std::uint64_t>(threads * each));
  EXPECT_EQ(reduces.ended, reduces.operations);
  EXPECT_EQ(reduces.bytes, reduces.operations * 40);
  EXPECT_EQ(reduces.nanoseconds, static_cast<std::int64_t>(reduces.operations * 3000))
      << "by the GPU's clock";
  EXPECT_EQ(gathers.operations, static_cast<std::uint64_t>(threads * each / 10));
  EXPECT_EQ(gathers.ended, gathers.operations);
  EXPECT_EQ(totals.dropped, 0U);
  EXPECT_EQ(recorder->snapshots().size(), 1U + threads / 2);
}

TEST(ProfilerRecorder, KeepsTheNewestOperations) {
  const auto recorder = new_recorder();
  const std::uint64_t communicator = recorder->add({.hash = 1, .ranks = 1, .rank = 0});
  const std::uint64_t old = recorder->start(communicator, {.kind = Kind::reduce});
  recorder->start_part(old);
  for (int i = 0; i < 5000; ++i) run(*recorder, communicator, Kind::all_reduce, 1);
  const Snapshot snapshot = recorder->snapshots().at(0);
  ASSERT_EQ(snapshot.operations.size(), Recorder::operations_kept);
  EXPECT_EQ(snapshot.operations.back().number, 5001U);
  EXPECT_EQ(snapshot.operations.front().number, 5001U - 1023U);
  EXPECT_EQ(recorder->totals().dropped, 0U);
  recorder->stop(old);
  EXPECT_EQ(recorder->totals().dropped, 1U) << "it is no longer kept";
  // What made room does not run on for ever.
  const std::int64_t busy = recorder->totals().busy_ns;
  EXPECT_EQ(recorder->totals().busy_ns, busy);
}

TEST(ProfilerRecorder, AnOperationEndsWithItsLastPart) {
  const auto recorder = new_recorder();
  const std::uint64_t communicator = recorder->add({.hash = 1, .ranks = 1, .rank = 0});
  const auto state = [&] { return recorder->snapshots().at(0).operations.back(); };
  const std::uint64_t one = recorder->start(communicator, {.kind = Kind::all_reduce, .parts = 2});
  EXPECT_EQ(state().begun_ns, 0);
  const std::uint64_t first = recorder->start_part(one);
  EXPECT_NE(state().begun_ns, 0);
  recorder->stop(first);
  EXPECT_FALSE(state().ended) << "it is not enqueued, and one part is missing";
  recorder->stop(one);
  EXPECT_FALSE(state().ended);
  recorder->stop(recorder->start_part(one));
  EXPECT_TRUE(state().ended);
  // Where the number of parts is not known, it ends with those that have begun, and again with later ones: once in the sums.
  const std::uint64_t other = recorder->start(communicator, {.kind = Kind::all_gather});
  recorder->stop(other);
  recorder->stop(recorder->start_part(other, 1000));
  EXPECT_TRUE(state().ended);
  const std::uint64_t late = recorder->start_part(other, 1000);
  EXPECT_FALSE(state().ended);
  recorder->time_part(late, 9000);
  recorder->stop(late);
  EXPECT_TRUE(state().ended);
  const Sums& sums = recorder->totals().sums[static_cast<std::size_t>(Kind::all_gather)];
  EXPECT_EQ(sums.ended, 1U);
  EXPECT_EQ(sums.nanoseconds, 8000);
}

TEST(ProfilerRecorder, HandlesThatAreOldOrMadeUpFindNothing) {
  const auto recorder = new_recorder();
  std::uint64_t communicator = recorder->add({.hash = 1, .ranks = 1, .rank = 0});
  const std::uint64_t one = recorder->start(communicator, {.kind = Kind::all_reduce});
  recorder->remove(communicator);
  recorder->remove(communicator);
  EXPECT_EQ(recorder->start(communicator, {}), 0U);
  EXPECT_EQ(recorder->start(0, {}), 0U);
  EXPECT_EQ(recorder->start_part(one), 0U);
  communicator = recorder->add({.hash = 2, .ranks = 1, .rank = 0});
  run(*recorder, communicator, Kind::all_reduce, 1);
  const auto before = recorder->snapshots().at(0).operations.back();
  Draw draw(7);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t any = static_cast<std::uint64_t>(draw.below(1 << 30)) << draw.below(35);
    if (any == 0) continue;
    recorder->start_part(any);
    recorder->time_part(any, 5);
    recorder->stop(any);
    recorder->end(any);
    recorder->remove(any | std::uint64_t{1} << 40);
    recorder->learn(any | std::uint64_t{1} << 40, "x", 1, 1);
  }
  const auto after = recorder->snapshots().at(0).operations.back();
  EXPECT_EQ(before.serial, after.serial);
  EXPECT_EQ(before.ended_ns, after.ended_ns);
}

TEST(ProfilerRecorder, OfTooManyCommunicatorsTheRestIsNotRecorded) {
  const auto recorder = new_recorder();
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < Recorder::most_communicators; ++i) {
    last = recorder->add({.hash = i, .ranks = 1, .rank = 0});
    ASSERT_NE(last, 0U);
  }
  EXPECT_EQ(recorder->add({}), 0U);
  recorder->remove(last);
  EXPECT_NE(recorder->add({}), 0U);
}

TEST(ProfilerRecorder, BusyTimeIsThatInWhichAnyOperationRuns) {
  const auto recorder = new_recorder();
  const std::uint64_t communicator = recorder->add({.hash = 1, .ranks = 1, .rank = 0});
  const std::uint64_t one = recorder->start(communicator, {.kind = Kind::all_reduce, .parts = 1});
  const std::uint64_t two = recorder->start(communicator, {.kind = Kind::all_reduce, .parts = 1});
  recorder->stop(one);
  recorder->stop(two);
  EXPECT_EQ(recorder->totals().busy_ns, 0) << "enqueued is not running";
  const std::uint64_t first = recorder->start_part(one);
  const std::uint64_t second = recorder->start_part(two);
  recorder->stop(first);
  recorder->stop(second);
  const Snapshot snapshot = recorder->snapshots().at(0);
  const std::int64_t whole = snapshot.operations[1].ended_ns - snapshot.operations[0].begun_ns;
  EXPECT_EQ(recorder->totals().busy_ns, whole);
  EXPECT_LE(whole, recorder->totals().sums[0].nanoseconds);
}

TEST(ProfilerTexts, FiguresAreInPrometheussFormat) {
  const auto recorder = new_recorder();
  const std::uint64_t communicator =
      recorder->add({.name = "a \"name\"\n", .hash = 0x7f, .ranks = 4, .rank = 2});
  run(*recorder, communicator, Kind::all_reduce, 1, 256);
  const std::string page = metrics(recorder->snapshots(), recorder->totals(),
                                   {.host = "h", .pid = 1, .steady_ns = steady_now(), .wall_ns = 1});
  EXPECT_NE(
      page.find(
          "# TYPE weft_nccl_operations_total counter\nweft_nccl_operations_total{op=\"all_reduce\"} 1\n"),
      std::string::npos)
      << page;
  EXPECT_NE(page.find("weft_nccl_bytes_total{op=\"all_reduce\"} 1024\n"), std::string::npos) << page;
  EXPECT_NE(page.find("weft_nccl_seconds_total{op=\"all_reduce\"} 0.000003000\n"), std::string::npos) << page;
  EXPECT_NE(
      page.find("weft_nccl_operation_number{communicator=\"0x7f\",name=\"a \\\"name\\\"?\",rank=\"2\"} 1\n"),
      std::string::npos)
      << page;
}

TEST(ProfilerTexts, WithoutTheNumberOfRanksThereIsNoFlightRecord) {
  const auto recorder = new_recorder();
  const std::uint64_t communicator = recorder->add({});
  run(*recorder, communicator, Kind::all_reduce, 1);
  EXPECT_TRUE(flight_record(recorder->snapshots().at(0), {.host = "h", .pid = 1, .wall_ns = 1}).empty());
}

std::string ask(int port, const std::string& request) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      send(client, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
    char chunk[4096];
    ssize_t got = 0;
    while ((got = recv(client, chunk, sizeof(chunk), 0)) > 0)
      answer.append(chunk, static_cast<std::size_t>(got));
  }
  close(client);
  return answer;
}

TEST(ProfilerService, AFileAsksAllProcessesThatSeeIt) {
  namespace fs = std::filesystem;
  const weft::test::TemporaryFolder folder;
  const fs::path now = fs::path(folder.path()) / "now";
  std::ofstream(now) << "an earlier job's";
  const auto recorder = new_recorder();
  run(*recorder, recorder->add({.hash = 0x1a, .ranks = 1, .rank = 0}), Kind::all_reduce, 1);
  Service service(*recorder, {.folder = folder.path()}, [](bool, const std::string&) {});
  const fs::path record = fs::path(folder.path()) / "comm-1a" / "rank-0.json";
  EXPECT_FALSE(fs::exists(record));
  fs::last_write_time(now, fs::last_write_time(now) + std::chrono::seconds(5));
  for (int i = 0; i < 3000 && !fs::exists(record); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(fs::exists(record));
}

TEST(ProfilerService, ServesFiguresOnTheNextFreePort) {
  const auto recorder = new_recorder();
  run(*recorder, recorder->add({.hash = 1, .ranks = 1, .rank = 0}), Kind::all_reduce, 1);
  Settings settings{.port = 29400};
  Service first(*recorder, settings, [](bool, const std::string&) {});
  Service second(*recorder, settings, [](bool, const std::string&) {});
  ASSERT_GT(first.port(), 0);
  EXPECT_GT(second.port(), first.port());
  for (const Service* one : {&first, &second}) {
    EXPECT_TRUE(
        ask(one->port(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
    EXPECT_NE(
        ask(one->port(), "GET / HTTP/1.1\r\n\r\n").find("weft_nccl_operations_total{op=\"all_reduce\"} 1"),
        std::string::npos);
    EXPECT_TRUE(ask(one->port(), "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 Not Found\r\n"));
    EXPECT_EQ(ask(one->port(), std::string(20000, 'x')).find("200 OK"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::profiler
