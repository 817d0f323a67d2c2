// A folder as a job that still runs leaves it: files of all ranks, one that is cut, and others' files.

#include "weft-report/inspector/folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "unit/tools/weft-report/inspector/runs.hpp"

namespace weft::report::inspector {
namespace {

class InspectorFolder : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const std::string path = folder_.path() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  void write_run(int ranks, int steps) {
    const auto files = test::files_of({.ranks = ranks, .steps = steps});
    for (std::size_t rank = 0; rank < files.size(); ++rank)
      write(text("host", rank / 4, "/node", rank / 8, "-pid", 1000 + rank, ".log"), files[rank]);
  }
  static bool notes(const Job& job, const std::string& file, const std::string& words) {
    return std::ranges::any_of(job.notes, [&](const std::string& note) {
      return note.find(file + ": ") != std::string::npos && note.find(words) != std::string::npos;
    });
  }
  weft::test::TemporaryFolder folder_;
};

TEST_F(InspectorFolder, EveryNumberOfThreadsReadsTheSame) {
  write_run(16, 10);
  const Job one = read_folder(folder_.path(), {.threads = 1});
  EXPECT_EQ(one.files, 16U);
  EXPECT_EQ(one.records, 16U * 40U);
  ASSERT_EQ(one.communicators.size(), 1U);
  for (const unsigned threads : {2U, 7U, 40U}) {
    const Job job = read_folder(folder_.path(), {.threads = threads});
    EXPECT_EQ(job.records, one.records);
    ASSERT_EQ(job.communicators.size(), 1U);
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      const auto& mine = job.communicators[0].operations[kind];
      const auto& other = one.communicators[0].operations[kind];
      EXPECT_TRUE(std::ranges::equal(mine, other, [](const Sample& a, const Sample& b) {
        return a.number == b.number && a.rank == b.rank && a.microseconds == b.microseconds &&
               a.size == b.size;
      }));
    }
  }
}

TEST_F(InspectorFolder, OtherFilesCostOneLineEach) {
  write_run(4, 4);
  write("being-written.log", test::object_of({.ranks = 4}, 0, "AllReduce", 1, 8192, 50, 0).substr(0, 200));
  write("empty.log", "");
  write("nccl.log", "node0:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n");
  write("old.log.gz", "\x1f\x8b\x08 and so on");
  write("readme", "hello\n");
  write("other.json", "{\"traceEvents\":[\n]}\n");
  write("broken.log", test::object_of({.ranks = 4}, 0, "AllReduce", 1, 8192, 50, 0) + "what\n");
  write("metrics.prom",
        "nccl_bus_bandwidth_gbs{node=\"n\",gpu=\"GPU0\",comm_name=\"c\",n_nodes=\"1\",nranks=\"4\","
        "collective=\"AllReduce\","
        "message_size=\"4-5GB\",algo_proto=\"Ring_ll\"} 678.2\nnccl_bus_ban");
  const Job job = read_folder(folder_.path());
  EXPECT_EQ(job.means.size(), 1U);
  EXPECT_EQ(job.records, 4U * 16U + 1U);
  EXPECT_TRUE(notes(job, "being-written.log", "its last object is cut: it was being written"));
  EXPECT_TRUE(notes(job, "empty.log", "is empty: nothing was written yet"));
  EXPECT_TRUE(notes(job, "nccl.log", "is a log of NCCL, not of its Inspector: name it after the folder"));
  EXPECT_TRUE(notes(job, "old.log.gz", "is compressed: run gunzip on it first"));
  EXPECT_TRUE(notes(job, "readme", "is no output of NCCL's Inspector"));
  EXPECT_TRUE(notes(job, "broken.log", "line 2 is no JSON: "));
  EXPECT_TRUE(notes(job, "metrics.prom", "its last line is cut"));
  EXPECT_LE(job.notes.size(), 8U) << "one each";
}

TEST_F(InspectorFolder, MoreThanTheLimitIsThinnedOutAlikeOnAllRanks) {
  write_run(8, 200);
  const Job job = read_folder(folder_.path(), {.most_records = 2000});
  EXPECT_EQ(job.records, 8U * 800U);
  EXPECT_GT(job.left_out, job.records / 2);
  for (const auto& samples : job.communicators.at(0).operations)
    each_operation(samples, [](std::span<const Sample> one) { EXPECT_EQ(one.size(), 8U); });
}

TEST_F(InspectorFolder, NothingOfInspectorIsAnError) {
  using weft::test::expect_error;
  expect_error(ErrorKind::usage, {folder_.path(), "none of 0 files is output of NCCL's Inspector"},
               [&] { read_folder(folder_.path()); });
  const std::string path = write("readme", "hello\n");
  expect_error(ErrorKind::usage, {path, "is no output of NCCL's Inspector"}, [&] { read_folder(path); });
  expect_error(ErrorKind::usage, {"/not", "there is no such folder or file"},
               [&] { read_folder(folder_.path() + "/not"); });
}

}  // namespace
}  // namespace weft::report::inspector
