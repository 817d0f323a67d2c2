// libnccl-profiler-weft.so under the fake NCCL, of each release: it hears of every operation of weft's ranks, and whatever events are missing, the job
// goes on.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "support/draw.hpp"
#include "support/ranks_with_fakes.hpp"
#include "support/temporary_folder.hpp"
#include "unit/tools/weft-report/profiler/profiled_ranks.hpp"
#include "weft/core/copy.hpp"

namespace weft::profiler::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using weft::test::FakeNcclRanks;
using weft::test::run_with_fakes;
using weft::test::WithFakeCuda;

std::string content_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::size_t times(const std::string& words, const std::string& in) {
  std::size_t found = 0;
  for (std::size_t at = in.find(words); at != std::string::npos; at = in.find(words, at + 1)) ++found;
  return found;
}

/// The flight records of a rank, of all its communicators.
std::string records_of(int rank, const fs::path& folder) {
  std::string all;
  for (const auto& one : fs::directory_iterator(folder)) {
    if (one.is_directory()) all += content_of(one.path() / ("rank-" + std::to_string(rank) + ".json"));
  }
  return all;
}

/// Asks this process for its records, as a user does, and waits for the last thing that it writes.
void ask_for_records(const fs::path& folder) {
  raise(SIGUSR2);
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  const fs::path trace = folder / ("trace-" + std::string(host) + "-" + std::to_string(getpid()) + ".json");
  for (int i = 0; i < 6000 && !fs::exists(trace); ++i) std::this_thread::sleep_for(10ms);
}

/// One of each operation, in place, and a message to the next rank. @returns whether the sums are right
bool all_operations(weft::Communicator& comm, Stream& stream) {
  const std::int64_t ranks = comm.size();
  Buffer small = comm.allocate(DataType::f32, 64);
  Buffer large = comm.allocate(DataType::f32, 64 * ranks);
  Buffer other = comm.allocate(DataType::f32, 64 * ranks);
  std::vector<float> ones(64, 1);
  copy(small.view(), ConstView(View(std::span(ones))), stream);
  comm.all_reduce(small.view(), ReduceOp::sum, stream);
  comm.all_gather(small.view(), large.view(), stream);
  comm.reduce_scatter(large.view(), small.view(), ReduceOp::sum, stream);
  comm.broadcast(small.view(), 0, stream);
  comm.reduce(small.view(), small.view(), ReduceOp::max, 0, stream);
  comm.all_to_all(large.view(), other.view(), stream);
  Group group(comm);
  group.send(small.view(), (comm.rank() + 1) % comm.size());
  group.receive(other.view().slice(0, 64), (comm.rank() + comm.size() - 1) % comm.size());
  group.start(stream);
  std::vector<float> got(64);
  copy(View(std::span(got)), small.view(), stream);
  stream.synchronize(Deadline::in(60s));
  return std::ranges::all_of(got, [&](float one) { return one == static_cast<float>(ranks * ranks); });
}

class ProfilerUnderFakeNccl : public ::testing::TestWithParam<Release> {
 protected:
  void SetUp() override { ASSERT_EQ(setenv("WEFT_PROFILER_DIR", folder_.path().c_str(), 1), 0); }
  void TearDown() override {
    unsetenv("WEFT_PROFILER_DIR");
    unsetenv("WORLD_SIZE");
  }
  weft::test::TemporaryFolder folder_;
};

TEST_P(ProfilerUnderFakeNccl, HearsOfEveryOperationOfEveryRank) {
  const int ranks = GetParam() == Release::v2_31 ? 8 : 2;
  ASSERT_EQ(setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1), 0);
  const WithFakeCuda cuda;
  FakeNcclRanks nccl(version_of(GetParam()));
  nccl.observe(profiled(GetParam()));
  run_with_fakes(nccl, ranks, [&](weft::Communicator comm) {
    Stream stream(comm.device());
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(all_operations(comm, stream));
    Stream host;
    comm.barrier(host).wait();
    if (comm.rank() == 0) ask_for_records(folder_.path());
    comm.barrier(host).wait();
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string records = records_of(rank, folder_.path());
    EXPECT_EQ(times("\"number\":", records), nccl.handed_over(rank).size()) << "rank " << rank;
    EXPECT_EQ(times("\"state\":\"done\"", records), nccl.handed_over(rank).size()) << "rank " << rank;
    for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"})
      EXPECT_GE(times("\"kind\":\"" + std::string(kind) + "\"", records), 5U) << kind;
    EXPECT_GE(times("\"kind\":\"all_reduce\",\"count\":64,\"dtype\":\"f32\"", records), 5U);
  }
}

TEST_P(ProfilerUnderFakeNccl, EventsThatAreMissingNeverEndTheJob) {
  constexpr int ranks = 3;
  ASSERT_EQ(setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1), 0);
  std::mutex mutex;
  weft::test::Draw draw(static_cast<unsigned>(GetParam()));
  const WithFakeCuda cuda;
  FakeNcclRanks nccl(version_of(GetParam()));
  nccl.observe(profiled(GetParam(), [&] {
    const std::lock_guard lock(mutex);
    return draw.below(4) == 0;
  }));
  run_with_fakes(nccl, ranks, [&](weft::Communicator comm) {
    Stream stream(comm.device());
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(all_operations(comm, stream));
    Stream host;
    comm.barrier(host).wait();
    if (comm.rank() == 0) ask_for_records(folder_.path());
    comm.barrier(host).wait();
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string records = records_of(rank, folder_.path());
    const std::size_t all = nccl.handed_over(rank).size();
    EXPECT_GT(times("\"number\":", records), all / 2) << "rank " << rank;
    EXPECT_LT(times("\"number\":", records), all) << "rank " << rank;
    EXPECT_LT(times("\"state\":\"done\"", records), times("\"number\":", records)) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(OfEachRelease, ProfilerUnderFakeNccl, ::testing::ValuesIn(releases),
                         [](const ::testing::TestParamInfo<Release>& one) {
                           return "v" + std::to_string(static_cast<int>(one.param));
                         });

}  // namespace
}  // namespace weft::profiler::test
