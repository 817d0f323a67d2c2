// libnccl-tuner-weft.so as NCCL of five releases loads and asks it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "unit/tools/weft-report/tuner/loading_nccl.hpp"

namespace weft::tuner {
namespace {

constexpr std::array releases{Release::v2_21, Release::v2_22, Release::v2_24, Release::v2_28, Release::v2_30};

constexpr float no = -1.0F;
/// Two nodes with NVLink, without CollNet: what NCCL leaves open for an all-reduce, in microseconds. Ring with the simple protocol is the least.
constexpr CostTable open_entries{50, 60, 40, 45, 44, 30, no, no, no, no, no,
                                 no, no, no, 90, no, no, 35, no, no, no};

class TunerLibrary : public testing::TestWithParam<Release> {
 protected:
  TunerLibrary() {
    folder_ = std::filesystem::temp_directory_path() / ("weft-tuner-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    LoadingNccl::clear_log();
  }
  ~TunerLibrary() override {
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    std::filesystem::remove_all(folder_);
  }

  /// Writes a table, and names it.
  std::string use(const std::string& content) {
    static int number = 0;
    const std::string path = folder_ / ("table-" + std::to_string(++number) + ".csv");
    std::ofstream(path) << content;
    setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
    return path;
  }
  static bool logged(const std::string& words) {
    for (const std::string& line : LoadingNccl::log()) {
      if (line.find(words) != std::string::npos) return true;
    }
    return false;
  }

  std::filesystem::path folder_;
};

TEST_P(TunerLibrary, IsFoundByItsNameAndHasTheReleasesOwnInterface) {
  const LoadingNccl nccl(GetParam(), "weft");
  ASSERT_TRUE(nccl.loaded());
  EXPECT_EQ(nccl.interface(), 2 + static_cast<int>(GetParam()));
  EXPECT_EQ(nccl.tuner_name(), "weft");
  EXPECT_FALSE(LoadingNccl(GetParam(), "wefts").loaded());
}

TEST_P(TunerLibrary, TheFirstRowThatFitsIsTaken) {
  const std::string path =
      use("# what was measured\n"
          "allreduce,0,65536,tree,ll,-1,2,16\n"
          "allreduce,0,-1,ring,ll,4,-1,16\n"
          "allreduce,0,-1,tree,simple,-1,-1,-1\n");
  const LoadingNccl nccl(GetParam(), "weft");
  Communicator two_nodes(nccl, 16, 2);
  Choice choice = two_nodes.choose(all_reduce, 65536, 1, open_entries, 0);
  EXPECT_EQ(choice.algorithm, tree);
  EXPECT_EQ(choice.protocol, ll);
  EXPECT_EQ(choice.channels, 0);  // NCCL's own number
  choice = two_nodes.choose(all_reduce, 65537, 1, open_entries, 0);
  EXPECT_EQ(choice.algorithm, ring);
  EXPECT_EQ(choice.protocol, ll);
  EXPECT_EQ(choice.channels, 4);
  Communicator other(nccl, 8, 1);
  choice = other.choose(all_reduce, 1, 1, open_entries, 0);
  EXPECT_EQ(choice.algorithm, tree);
  EXPECT_EQ(choice.protocol, simple);
  EXPECT_TRUE(logged("INFO TUNER/weft: " + path + ": 3 of 3 rows are for 16 ranks on 2 nodes"));
  EXPECT_TRUE(logged("INFO TUNER/weft: " + path + ": 1 of 3 rows are for 8 ranks on 1 node"));
  EXPECT_TRUE(logged("line 3: allreduce of 65537 bytes: ring/ll, 4 channels"));
}

TEST_P(TunerLibrary, WithoutARowThatFitsNothingIsTouched) {
  use("allreduce,100,200,tree,ll,2,2,16\nallgather,0,-1,ring,ll,2,-1,-1\nallreduce,0,-1,tree,ll,2,-1,-1,7\n");
  const LoadingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, 16, 2);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{99}, std::size_t{201}, std::size_t{1} << 40}) {
    EXPECT_EQ(communicator.ask(all_reduce, bytes, 1, open_entries, 0), (Choice{.after = open_entries}));
  }
  // SendRecv and what came later are no collectives of a table.
  for (const int kind : {-1, 5, 6, 14, 1 << 20})
    EXPECT_EQ(communicator.ask(kind, 150, 1, open_entries, 0), (Choice{.after = open_entries}));
}

TEST_P(TunerLibrary, ARowThatNcclCannotRunIsPassedOver) {
  use("allreduce,0,-1,collnet_direct,simple,2,-1,-1\nallreduce,0,-1,pat,simple,2,-1,-1\nallreduce,0,-1,tree,"
      "simple,3,-1,-1\n");
  const LoadingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, 16, 2);
  const Choice choice = communicator.choose(all_reduce, 1000, 1, open_entries, 0);
  EXPECT_EQ(choice.algorithm, tree);
  EXPECT_EQ(choice.protocol, simple);
  EXPECT_EQ(choice.channels, 3);
  EXPECT_EQ(choice.after[collnet_direct * 3 + simple], no);
  EXPECT_EQ(choice.after[pat * 3 + simple], no);
  EXPECT_TRUE(
      logged("line 1: allreduce of 1000 bytes: collnet_direct/simple, 2 channels cannot be run here; the row "
             "is passed over"));
}

TEST_P(TunerLibrary, OnlyReleasesThatSayWhetherBuffersAreRegisteredTakeRowsOfThat) {
  use("allreduce,0,-1,tree,simple,-1,-1,-1,-1,1\n");
  const LoadingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, 16, 2);
  EXPECT_EQ(communicator.ask(all_reduce, 1000, 1, open_entries, 0), (Choice{.after = open_entries}));
  const bool takes = communicator.choose(all_reduce, 1000, 1, open_entries, 1).algorithm == tree;
  EXPECT_EQ(takes, GetParam() >= Release::v2_24);
}

// The rows of docs/tuning.md.
TEST_P(TunerLibrary, TheDocumentedTableGivesTheIntendedChoices) {
  std::ifstream page(std::string(WEFT_SOURCE_DIR) + "/docs/tuning.md");
  std::string content;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```text")
      inside = true;
    else if (line == "```")
      inside = false;
    else if (inside)
      content += line + '\n';
  }
  ASSERT_FALSE(content.empty());
  use(content);
  const LoadingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, 16, 2);
  const auto choice = [&](int collective, std::size_t bytes) {
    return communicator.choose(collective, bytes, 1, open_entries, 0);
  };
  const auto taken = [&](int collective, std::size_t bytes) {
    return std::pair(choice(collective, bytes).algorithm, choice(collective, bytes).protocol);
  };
  EXPECT_EQ(taken(all_reduce, 4096), std::pair(tree, ll));
  EXPECT_EQ(choice(all_reduce, 4096).channels, 2);
  // LL128 has to be offered by NCCL; 2.21 cannot offer it, and its own choice stays.
  EXPECT_EQ(taken(all_reduce, 1 << 20), std::pair(ring, GetParam() == Release::v2_21 ? simple : ll128));
  EXPECT_EQ(taken(all_reduce, std::size_t{1} << 33), std::pair(nvls_tree, simple));
  EXPECT_EQ(choice(all_reduce, std::size_t{1} << 33).channels, 0);
  EXPECT_EQ(taken(all_gather, 1 << 20), std::pair(ring, simple));
  EXPECT_EQ(choice(all_gather, 1 << 20).channels, 8);
  EXPECT_EQ(communicator.ask(broadcast, 1 << 20, 1, open_entries, 0), (Choice{.after = open_entries}));
  EXPECT_FALSE(logged("WARN"));
}

TEST_P(TunerLibrary, BadRowsAreSaidOnceWithFileAndLineAndTheOthersCount) {
  const std::string path = use("allreduce,0,-1,rong,ll,-1,-1,-1\nallreduce,0,-1,tree,ll,-1,-1,-1\n");
  const LoadingNccl nccl(GetParam(), "weft");
  Communicator first(nccl, 16, 2);
  Communicator second(nccl, 16, 2);
  const auto lines = LoadingNccl::log();
  EXPECT_EQ(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("WARN"); }),
            1);
  EXPECT_TRUE(logged("WARN " + path + ":1 TUNER/weft: " + path +
                     ", line 1: algorithm is 'rong': allowed are tree, ring"));
  EXPECT_EQ(second.choose(all_reduce, 1, 1, open_entries, 0).algorithm, tree);
}

TEST_P(TunerLibrary, AFileFullOfBadRowsIsSaidInElevenLines) {
  std::string content;
  for (int i = 0; i < 5000; ++i) content += "nonsense\n";
  use(content);
  const LoadingNccl nccl(GetParam(), "weft");
  const Communicator communicator(nccl, 16, 2);
  EXPECT_TRUE(logged("4990 more rows are left out"));
  EXPECT_EQ(LoadingNccl::log().size(), 12u);  // and how many rows stand
}

TEST_P(TunerLibrary, AFileThatIsNotThereIsAWarningAndChangesNothing) {
  const std::string path = folder_ / "none.csv";
  setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
  const LoadingNccl nccl(GetParam(), "weft");
  Communicator communicator(nccl, 16, 2);
  EXPECT_TRUE(logged("TUNER/weft: " + path + ": No such file or directory; NCCL chooses by itself"));
  EXPECT_EQ(communicator.ask(all_reduce, 1000, 1, open_entries, 0), (Choice{.after = open_entries}));
}

TEST_P(TunerLibrary, WhatIsNoFileIsAWarning) {
  setenv("NCCL_TUNER_CONFIG_FILE", folder_.c_str(), 1);
  const LoadingNccl nccl(GetParam(), "weft");
  const Communicator communicator(nccl, 16, 2);
  EXPECT_TRUE(logged("it is no file; NCCL chooses by itself"));
}

TEST_P(TunerLibrary, WithoutANameItLooksIntoTheWorkingFolderThenWarns) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const LoadingNccl nccl(GetParam(), "weft");
  {
    const Communicator communicator(nccl, 16, 2);
    EXPECT_TRUE(
        logged("NCCL_TUNER_CONFIG_FILE is not set, and neither nccl_tuner.conf nor /etc/weft/nccl-tuner.csv "
               "is there"));
  }
  std::ofstream("nccl_tuner.conf") << "allreduce,0,-1,tree,ll,-1,-1,-1\n";
  Communicator communicator(nccl, 16, 2);
  EXPECT_EQ(communicator.choose(all_reduce, 1, 1, open_entries, 0).algorithm, tree);
  std::filesystem::current_path(before);
}

TEST_P(TunerLibrary, CommunicatorsOfSeveralThreadsComeAndGo) {
  use("allreduce,0,-1,tree,ll,2,-1,-1\n");
  const LoadingNccl nccl(GetParam(), "weft");
  Communicator shared(nccl, 16, 2);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        Communicator own(nccl, 16, 2);
        right += own.choose(all_reduce, 1, 1, open_entries, 0).algorithm == tree ? 1 : 0;
        right += shared.choose(all_reduce, 1, 1, open_entries, 0).channels == 2 ? 1 : 0;
      }
    });
  }
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(right, 400);
}

// NCCL 2.21 takes a choice as it is: none that its own search would not look at.
TEST_F(TunerLibrary, Release221GetsNoChoiceThatItCannotRun) {
  use("allreduce,0,10,ring,ll128,2,-1,-1\nbroadcast,0,10,tree,simple,2,-1,-1\nallgather,0,10,tree,simple,2,-"
      "1,-1\n"
      "allreduce,0,10,nvls,simple,2,-1,-1\nallreduce,0,10,nvls_tree,ll,2,-1,-1\nreducescatter,0,10,pat,"
      "simple,2,-1,-1\n"
      "allreduce,0,10,collnet_chain,simple,2,-1,-1\n");
  const LoadingNccl nccl(Release::v2_21, "weft");
  Communicator communicator(nccl, 16, 2);
  for (int collective = broadcast; collective <= all_reduce; ++collective)
    EXPECT_EQ(communicator.ask(collective, 5, 1, open_entries, 0), (Choice{.after = open_entries}))
        << collective;
}

std::string name_of(const testing::TestParamInfo<Release>& release) {
  return std::array{"Nccl221", "Nccl222", "Nccl224", "Nccl228", "Nccl230"}.at(
      static_cast<std::size_t>(release.param));
}

INSTANTIATE_TEST_SUITE_P(Releases, TunerLibrary, testing::ValuesIn(releases), name_of);

}  // namespace
}  // namespace weft::tuner
