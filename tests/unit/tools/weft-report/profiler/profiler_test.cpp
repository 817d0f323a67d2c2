// libnccl-profiler-weft.so as NCCL of seven releases loads and calls it.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "support/temporary_folder.hpp"
#include "unit/tools/weft-report/profiler/calling_nccl.hpp"

namespace weft::profiler::test {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
/// Waits for a file, which is renamed into its place when it is whole.
bool comes(const fs::path& path) {
  for (int i = 0; i < 3000 && !fs::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return fs::exists(path);
}
fs::path trace_in(const fs::path& folder) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return folder / ("trace-" + std::string(host) + "-" + std::to_string(getpid()) + ".json");
}

class Profiler : public ::testing::TestWithParam<Release> {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("WEFT_PROFILER_DIR", folder_.path().c_str(), 1), 0);
    ASSERT_EQ(setenv("WORLD_SIZE", "8", 1), 0);
    CallingNccl::clear_log();
  }
  void TearDown() override {
    unsetenv("WEFT_PROFILER_DIR");
    unsetenv("WORLD_SIZE");
    unsetenv("WEFT_PROFILER_PORT");
    unsetenv("WEFT_PROFILER_TEXTFILE");
  }
  bool has_kernels() const { return GetParam() >= Release::v2_26; }
  weft::test::TemporaryFolder folder_;
};

// From 2.26 on events say that kernels run; before, proxies speak for what goes over a network.
class ProfilerOfKernels : public Profiler {};
class ProfilerOfProxies : public Profiler {};

TEST_P(Profiler, LoadsAndAsksForWhatItUses) {
  const CallingNccl nccl(GetParam(), "weft");
  ASSERT_TRUE(nccl.loaded());
  EXPECT_EQ(nccl.profiler_name(), "weft");
  const Communicator communicator(nccl, {.hash = 0x7f, .ranks = 8, .rank = 3});
  EXPECT_NE(communicator.context(), nullptr) << "NCCL finalizes no context that is null";
  EXPECT_EQ(communicator.mask(),
            event_collective | event_p2p | (has_kernels() ? event_kernel_channel : event_proxy_operation));
}

TEST_P(Profiler, WritesAFlightRecordAndATraceOnSigusr2) {
  const CallingNccl nccl(GetParam(), "weft");
  ASSERT_TRUE(nccl.loaded());
  Communicator communicator(nccl, {.name = "DP", .hash = 0x7f8c, .nodes = 2, .ranks = 8, .rank = 3});
  for (int i = 0; i < 3; ++i)
    communicator.run(communicator.enqueue({.function = "AllReduce", .count = 100}), 1000, 51000);
  communicator.run(communicator.enqueue({.function = "Send", .root = 4, .p2p = true}), 1000, 2000);
  communicator.run(
      communicator.enqueue({.function = "Broadcast", .datatype = "ncclBfloat16", .count = 7, .root = 5}),
      1000, 2000);
  communicator.enqueue({.function = "ReduceScatter", .count = 9});  // and does not begin
  ASSERT_EQ(raise(SIGUSR2), 0);
  ASSERT_TRUE(comes(trace_in(folder_.path())));
  const std::string record = content_of(fs::path(folder_.path()) / "comm-7f8c" / "rank-3.json");
  EXPECT_NE(record.find("\"weft_flight\":1,\"rank\":3,\"size\":8"), std::string::npos) << record;
  EXPECT_NE(record.find("\"name\":\"DP\",\"ranks\":[0,1,2,3,4,5,6,7],\"rank\":3"), std::string::npos)
      << record;
  EXPECT_NE(record.find("\"number\":1,\"kind\":\"all_reduce\",\"count\":100,\"dtype\":\"f32\",\"op\":\"sum\","
                        "\"root\":0,\"state\":\"done\""),
            std::string::npos)
      << record;
  EXPECT_NE(record.find("\"number\":4,\"kind\":\"broadcast\",\"count\":7,\"dtype\":\"bf16\",\"op\":\"sum\","
                        "\"root\":5,\"state\":\"done\""),
            std::string::npos)
      << record;
  EXPECT_NE(record.find("\"number\":5,\"kind\":\"reduce_scatter\",\"count\":9,\"dtype\":\"f32\",\"op\":"
                        "\"sum\",\"root\":0,\"state\":\"issued\""),
            std::string::npos)
      << record;
  EXPECT_EQ(record.find("send"), std::string::npos);
  const std::string trace = content_of(trace_in(folder_.path()));
  EXPECT_NE(trace.find("\"name\":\"send\",\"cat\":\"nccl\",\"ph\":\"X\""), std::string::npos) << trace;
  EXPECT_NE(trace.find("DP, rank 3"), std::string::npos);
  if (GetParam() >= Release::v2_27) {
    EXPECT_NE(trace.find("\"gpu_us\":50.000"), std::string::npos) << trace;
  }
}

TEST_P(ProfilerOfKernels, AnOperationThatHangsIsBegunAndNotDone) {
  const CallingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, {.hash = 0xa, .ranks = 8, .rank = 0});
  const Task task = communicator.enqueue({.channels = 2});
  void* const first = communicator.begin_part(task, 0, 1000);
  void* const second = communicator.begin_part(task, 1, 1000);
  communicator.end_part(first, 2000);
  ASSERT_EQ(raise(SIGUSR2), 0);
  ASSERT_TRUE(comes(trace_in(folder_.path())));
  EXPECT_NE(content_of(fs::path(folder_.path()) / "comm-a" / "rank-0.json").find("\"state\":\"begun\""),
            std::string::npos);
  communicator.end_part(second, 2000);
}

TEST_P(Profiler, StrangeEventsChangeNothing) {
  const CallingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, {.hash = 0xb, .ranks = 8, .rank = 1});
  const Task task = communicator.enqueue({});
  communicator.strange_events(task);
  communicator.run(task, 1000, 2000);
  communicator.strange_events({});
  communicator.run(communicator.enqueue({.function = "NewOperation", .datatype = "ncclFloat4"}), 1, 2);
  ASSERT_EQ(raise(SIGUSR2), 0);
  ASSERT_TRUE(comes(trace_in(folder_.path())));
  const std::string record = content_of(fs::path(folder_.path()) / "comm-b" / "rank-1.json");
  EXPECT_NE(record.find("\"number\":1,\"kind\":\"all_reduce\""), std::string::npos) << record;
  EXPECT_NE(record.find("\"state\":\"done\""), std::string::npos) << record;
  EXPECT_EQ(record.find("\"number\":2"), std::string::npos) << "weft has no such operation: " << record;
}

TEST_P(ProfilerOfProxies, AProxyOfAnotherProcessIsNoPartOfAnOperationHere) {
  const CallingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, {.hash = 0xc, .ranks = 8, .rank = 1});
  communicator.run(communicator.enqueue({}), 0, 0, getpid() + 1);
  ASSERT_EQ(raise(SIGUSR2), 0);
  ASSERT_TRUE(comes(trace_in(folder_.path())));
  EXPECT_NE(content_of(fs::path(folder_.path()) / "comm-c" / "rank-1.json").find("\"state\":\"issued\""),
            std::string::npos);
}

TEST_P(Profiler, TheProgramsOwnHandlerIsLeftAlone) {
  struct sigaction own {};
  own.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR2, &own, &before), 0);
  {
    const CallingNccl nccl(GetParam(), "weft");
    const Communicator communicator(nccl, {.hash = 0xd, .ranks = 2, .rank = 1});
    struct sigaction now {};
    sigaction(SIGUSR2, nullptr, &now);
    EXPECT_EQ(now.sa_handler, own.sa_handler);
  }
  sigaction(SIGUSR2, &before, nullptr);
}

TEST_P(Profiler, NothingIsLeftWhenTheLibraryIsUnloaded) {
  struct sigaction before {};
  sigaction(SIGUSR2, nullptr, &before);
  for (int i = 0; i < 20; ++i) {
    const CallingNccl nccl(GetParam(), "weft");
    Communicator communicator(nccl, {.hash = 0xe, .ranks = 2, .rank = 1});
    Communicator other(nccl, {.hash = 0xf, .ranks = 2, .rank = 1});
    communicator.run(communicator.enqueue({}), 1, 2);
    other.enqueue({});
  }
  struct sigaction after {};
  sigaction(SIGUSR2, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  std::size_t threads = 0;
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    (void)thread;
    ++threads;
  }
  EXPECT_LE(threads, 2U) << "a sanitizer may have one of its own";
}

TEST_P(Profiler, AFolderThatCannotBeIsSaidAndCostsNothing) {
  ASSERT_EQ(setenv("WEFT_PROFILER_DIR", "/dev/null/folder", 1), 0);
  ASSERT_EQ(setenv("WEFT_PROFILER_PORT", "99999", 1), 0);
  const CallingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, {.hash = 0x10, .ranks = 2, .rank = 1});
  if (GetParam() < Release::v2_27) return;  // they hand over no logger
  ASSERT_EQ(raise(SIGUSR2), 0);
  const auto said = [](const char* words) {
    for (const std::string& line : CallingNccl::log()) {
      if (line.find(words) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(said("WARN PROFILER/weft: WEFT_PROFILER_PORT is no port: allowed is 1 to 65535"));
  for (int i = 0; i < 3000 && !said("/dev/null/folder"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(said("WARN PROFILER/weft: /dev/null/folder: cannot be made: Not a directory"));
}

std::string name_of(const ::testing::TestParamInfo<Release>& one) {
  return "v" + std::to_string(static_cast<int>(one.param));
}
INSTANTIATE_TEST_SUITE_P(OfEachRelease, Profiler, ::testing::ValuesIn(releases), name_of);
INSTANTIATE_TEST_SUITE_P(From2_26, ProfilerOfKernels, ::testing::ValuesIn(releases + 2, releases + 7),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Before2_26, ProfilerOfProxies, ::testing::ValuesIn(releases, releases + 2), name_of);

}  // namespace
}  // namespace weft::profiler::test
