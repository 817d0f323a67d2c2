// Files, folders, and whatever else a path may be.

#include "weft-report/nccl/log_source.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft-report/nccl/nccl.hpp"

namespace weft::report::nccl {
namespace {

using weft::test::expect_error;

class NcclLogFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const std::string path = folder_.path() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  void read(const std::vector<std::string>& paths) {
    const auto name_of = [](const std::string& file) {
      return std::filesystem::path(file).filename().string();
    };
    read_inputs(paths,
                {.line =
                     [&](const std::string&, int number, std::string_view line) {
                       lines_.push_back(std::to_string(number) + " " + std::string(line));
                     },
                 .document =
                     [&](const std::string& file, const documents::Kind& kind, std::string_view content) {
                       documents_.push_back(name_of(file) + " is " + std::string(kind.name));
                       sizes_.push_back(content.size());
                     },
                 .skipped = [&](const std::string& file,
                                const std::string& why) { skipped_.push_back(name_of(file) + " " + why); }});
  }

  weft::test::TemporaryFolder folder_;
  std::vector<std::string> lines_;
  std::vector<std::string> documents_;
  std::vector<std::size_t> sizes_;
  std::vector<std::string> skipped_;
};

TEST_F(NcclLogFiles, OfAFolderAreReadByName) {
  write("b/2.log", "three\n");
  write("a.log", "one\ntwo");
  read({folder_.path()});
  EXPECT_EQ(lines_, (std::vector<std::string>{"1 one", "2 two", "1 three"}));
  EXPECT_TRUE(skipped_.empty());
}

TEST_F(NcclLogFiles, ThatAreNoTextAreSkippedAndTheRestIsRead) {
  write("a", "");
  write("b", std::string("\x7f"
                         "ELF\0\0",
                         6));
  write("c", "\x1f\x8b\x08 compressed");
  write("d", "a line\n");
  read({folder_.path()});
  EXPECT_EQ(lines_, (std::vector<std::string>{"1 a line"}));
  EXPECT_EQ(skipped_, (std::vector<std::string>{"a is empty", "b is not text; decompress it, or leave it out",
                                                "c is not text; decompress it, or leave it out"}));
}

TEST_F(NcclLogFiles, ThatAreNotThereAreRefused) {
  expect_error(ErrorKind::usage, {"there is no '/nowhere/log'", "name files, folders"},
               [&] { read({"/nowhere/log"}); });
}

TEST_F(NcclLogFiles, MayBeAnEmptyFolder) {
  read({folder_.path()});
  ASSERT_EQ(skipped_.size(), 1U);
  EXPECT_NE(skipped_[0].find("has no file"), std::string::npos);
}

TEST_F(NcclLogFiles, WithLinesOfAnyLength) {
  const std::string longer(longest_line + 100, 'x');
  const std::string whole(longest_line, 'y');
  write("log", longer + "\n" + whole + "\n\nshort\r\nlast");
  read({folder_.path() + "/log"});
  ASSERT_EQ(lines_.size(), 5U);
  EXPECT_EQ(lines_[0], "1 " + longer.substr(0, longest_line));
  EXPECT_EQ(lines_[1], "2 " + whole);
  EXPECT_EQ(lines_[2], "3 ");
  EXPECT_EQ(lines_[3], "4 short\r");
  EXPECT_EQ(lines_[4], "5 last");
}

TEST_F(NcclLogFiles, ThatAreDocumentsComeWhole) {
  const std::string topology = "<system version=\"1\">" + std::string((3U << 20), ' ') + "</system>\n";
  write("a.log", topology);
  write("b.xml", "node1:1:1 [0] NCCL INFO <system version=\"1\">\n");
  write("c", "<?xml version=\"1.0\"?>\n<!-- by hand -->\n<system/>");
  write("d", "<systems/>\n");
  read({folder_.path()});
  EXPECT_EQ(documents_, (std::vector<std::string>{"a.log is a topology of NCCL", "c is a topology of NCCL"}));
  EXPECT_EQ(sizes_.front(), topology.size());
  EXPECT_EQ(lines_,
            (std::vector<std::string>{"1 node1:1:1 [0] NCCL INFO <system version=\"1\">", "1 <systems/>"}));
  EXPECT_TRUE(skipped_.empty());
}

TEST_F(NcclLogFiles, ThatAreDocumentsAreReadUpToALimit) {
  write("topo.xml", "<system>" + std::string((17U << 20), ' ') + "</system>");
  read({folder_.path()});
  ASSERT_EQ(sizes_.size(), 1U);
  EXPECT_EQ(sizes_[0], (16U << 20) + 1);
  JobLog log;
  const std::vector<std::string> notes = log.read({folder_.path()});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("is a topology of NCCL of more than 16 MiB, and was not read"), std::string::npos)
      << notes[0];
  EXPECT_EQ(log.job().documents.taken, 0);
}

TEST_F(NcclLogFiles, AreReadTheSameFromMemory) {
  std::vector<std::string> lines;
  read_text("a\nb\n\nc", "log", [&](const std::string& file, int number, std::string_view line) {
    lines.push_back(file + std::to_string(number) + std::string(line));
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"log1a", "log2b", "log3", "log4c"}));
}

TEST_F(NcclLogFiles, GiveFactsOfEachProcess) {
  write("rank0",
        "NCCL version 2.27.5+cuda12.9\n"
        "node1:7:8 [0] NCCL INFO cudaDriverVersion 13000\n"
        "node1:7:8 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.1<0>\n"
        "node1:7:8 [0] NCCL INFO Using network IB\n"
        "node1:7:8 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 16 cudaDev 2 nvmlDev 2 busId 1b000 "
        "commId 0x5 - Init START\n"
        "node1:7:8 [0] NCCL INFO comm 0x1 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0\n"
        "node1:7:8 [0] NCCL INFO Channel 00/0 : 1[1] -> 3[2] [receive] via NET/IB/0/GDRDMA\n"
        "node1:7:8 [0] NCCL INFO Channel 00/0 : 3[2] -> 4[3] via P2P/CUMEM/read\n"
        "node1:7:8 [0] NCCL INFO Channel 00 : 3[2] -> 4[3] via SHM/direct\n"
        "node1:7:8 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n"
        "node1:7:8 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 16 cudaDev 2 nvmlDev 2 busId 1b000 "
        "commId 0x5 - Init COMPLETE\n");
  JobLog log;
  EXPECT_TRUE(log.read({folder_.path()}).empty());
  const Job& job = log.job();
  ASSERT_EQ(job.processes.size(), 2U);
  EXPECT_EQ(job.processes[0].version.value, "2.27.5+cuda12.9");
  const Process& one = job.processes[1];
  EXPECT_EQ(one.host, "node1");
  EXPECT_EQ(one.pid, 7);
  EXPECT_EQ(one.driver.value, "13000");
  EXPECT_EQ(one.bootstrap.value, "eth0:10.1.0.1<0>");
  EXPECT_EQ(one.network.value, "IB");
  EXPECT_EQ(one.rank, 3);
  EXPECT_EQ(one.ranks, 16);
  EXPECT_EQ(one.nodes, 2);
  EXPECT_EQ(one.inits_started, 1);
  EXPECT_EQ(one.inits_done, 1);
  EXPECT_EQ(one.connections.rdma_direct, 1);
  EXPECT_EQ(one.connections.p2p, 1);
  EXPECT_EQ(one.connections.shm, 1);
  EXPECT_EQ(one.settings.at("NCCL_IB_HCA").value, "mlx5_0");
  EXPECT_EQ(one.settings.at("NCCL_IB_HCA").evidence.line, 10);
  EXPECT_TRUE(job.several_nodes());
  EXPECT_TRUE(examine(job).empty());
}

TEST_F(NcclLogFiles, HoldSettingsBehindTags) {
  JobLog log;
  log.add(
      "NCCL_ALGO=Ring\nnode1: NCCL_PROTO=LL\n[1,0]<stdout>:NCCL_MIN_NCHANNELS=4\nhint: NCCL_P2P_DISABLE=1\n"
      "use 1: set NCCL_SHM_DISABLE=1\n",
      "log");
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS"})
    EXPECT_NE(log.job().setting(name), nullptr) << name;
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"})
    EXPECT_EQ(log.job().setting(name), nullptr) << name;
}

TEST_F(NcclLogFiles, WithRanksMixedSayTheSame) {
  const auto rank = [](int host) {
    const std::string at = "node" + std::to_string(host) + ":7:8 [0] NCCL INFO ";
    return std::vector<std::string>{
        at + "Using network IB\n",
        at + "NCCL_ALGO set by environment to " + (host == 3 ? "Tree\n" : "Ring\n"),
        at + "Channel 00/0 : 1[1] -> 3[2] [receive] via NET/IB/0/GDRDMA\n"};
  };
  std::string in_turn;
  std::string mixed;
  for (int host = 1; host <= 3; ++host) {
    for (const std::string& line : rank(host)) in_turn += line;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    for (int host = 3; host >= 1; --host) mixed += rank(host)[i];
  }
  for (const std::string& content : {in_turn, mixed}) {
    JobLog log;
    log.add(content, "log");
    const std::vector<Finding> findings = examine(log.job());
    ASSERT_EQ(findings.size(), 2U);
    EXPECT_EQ(findings[0].cause, "env-mismatch");
    EXPECT_EQ(findings[1].cause, "setting-left-over");
    EXPECT_EQ(log.job().hosts().size(), 3U);
  }
}

TEST(LogFeed, SaysOfALogInPiecesWhatTheWholeSays) {
  const std::string content =
      "[rank 1] step 1: loss 3.1\r\n\nnode1:7:7 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\n"
      "weft-launch: rank 0 (pid 7) was killed by signal 9";
  JobLog whole;
  ASSERT_EQ(whole.add(content, "log"), "");
  const auto expected = examine(whole.job());
  ASSERT_FALSE(expected.empty());
  for (std::size_t size = 1; size <= content.size(); ++size) {
    JobLog log;
    LogFeed feed(log, "log");
    for (std::size_t at = 0; at < content.size(); at += size)
      feed.add(std::string_view(content).substr(at, size));
    EXPECT_EQ(log.job().lines, 3);  // the fourth may go on
    EXPECT_TRUE(feed.finish());
    EXPECT_FALSE(feed.finish());
    EXPECT_EQ(log.job().lines, 4);
    const auto found = examine(log.job());
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(found.front().verdict, expected.front().verdict);
    ASSERT_FALSE(found.front().evidence.empty());
    EXPECT_EQ(found.front().evidence.front().line, 4);
  }
}

}  // namespace
}  // namespace weft::report::nccl
