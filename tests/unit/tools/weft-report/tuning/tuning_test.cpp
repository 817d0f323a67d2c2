// The parts of tuning around the search: tables of times, intervals, ranges, spaces, commands and files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/expect_error.hpp"
#include "weft-report/tuner/rows.hpp"
#include "weft-report/tuning/command.hpp"
#include "weft-report/tuning/interval.hpp"
#include "weft-report/tuning/ranges.hpp"
#include "weft-report/tuning/search.hpp"
#include "weft-report/tuning/settings_text.hpp"
#include "weft/collectives/algorithm.hpp"

namespace weft::report::tuning {
namespace {

using weft::test::expect_error;

constexpr const char* weft_table = R"(# weft-bench version 0.1.0 backend host (UCX)
# Using devices
#  Rank  0 Group  0 Pid   8847 on         vm device  0 [host] CPU
#  Rank  1 Group  0 Pid   8851 on      other device  0 [host] CPU
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
        1024           256     float     sum      -1    40.00    0.03    0.03       0    10.00    0.03    0.03       0
     1048576        262144     float     sum      -1  2296.56    0.46    0.46       0   462.78    2.27    2.27     N/A
# Out of bounds values : 0 OK
)";

TEST(TuningRows, BothPlacesOfASizeBecomeOneTime) {
  const BenchRun run = BenchRun::parse(weft_table);
  EXPECT_EQ(run.problem, "");
  EXPECT_EQ(run.backend, "host (UCX)");
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.hosts, 2);
  ASSERT_EQ(run.rows.size(), 2u);
  EXPECT_EQ(run.rows[0].bytes, 1024u);
  EXPECT_NEAR(run.rows[0].seconds, 20e-6, 1e-12);
}

struct Layout {
  const char* line;
  double microseconds;
};

class TuningRowLayout : public testing::TestWithParam<Layout> {};

// nccl-tests has had columns for redop and root in every collective since 2.11; before, only where they meant something.
TEST_P(TuningRowLayout, IsRead) {
  const BenchRun run = BenchRun::parse(GetParam().line);
  ASSERT_EQ(run.problem, "");
  ASSERT_EQ(run.rows.size(), 1u);
  EXPECT_NEAR(run.rows[0].seconds, GetParam().microseconds * 1e-6, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, TuningRowLayout,
    testing::Values(Layout{"1024 256 float sum -1 8.0 0.1 0.1 0 2.0 0.1 0.1 0\n", 4},
                    Layout{"1024 256 float sum 8.0 0.1 0.1 0e+00 2.0 0.1 0.1 0e+00\n", 4},
                    Layout{"1024 256 float 8.0 0.1 0.1 0e+00 2.0 0.1 0.1 0e+00\n", 4},
                    Layout{"1024 256 float none -1 8.0 0.1 0.1 N/A 2.0 0.1 0.1 N/A", 4},
                    Layout{"[1,0]<stdout>:1024 256 float sum -1 8.0 0.1 0.1 0 2.0 0.1 0.1 0\n", 4},
                    Layout{"[0] 1024 256 float sum -1 8.0 0.1 0.1 0\r\n", 8},
                    Layout{"1024 256 float sum -1 8 0.1 0.1 0 N/A 0.1 0.1 N/A\n", 8}));

class TuningBadRun : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(TuningBadRun, IsNoMeasurement) {
  EXPECT_EQ(BenchRun::parse(GetParam().first).problem, GetParam().second);
}

INSTANTIATE_TEST_SUITE_P(
    Outputs, TuningBadRun,
    testing::Values(
        std::pair{"", "it printed no row of times"},
        std::pair{"Test NCCL failure\n1 2\n", "it printed no row of times"},
        std::pair{"1024 256 float sum -1 nan 0.1 0.1 0 2.0 0.1 0.1 0\n", "the time of 1024 bytes is nan"},
        std::pair{"1024 256 float sum -1 0.0 0.1 0.1 0 2.0 0.1 0.1 0\n", "the time of 1024 bytes is 0.0"},
        std::pair{"1024 256 float sum -1 1.0 0.1 0.1 0 2.0 0.1 0.1 7\n",
                  "7 elements of 1024 bytes are wrong"},
        std::pair{"1024 256 float sum -1 1.0 0.1 0.1 0 2.0 0.1 0.1 0\n# Out of bounds values : 3 FAILED\n",
                  "its results are wrong"}));

// Whatever bytes a run prints: rows are in order, with times that are numbers above 0.
TEST(TuningRows, RandomBytesAreNoTrouble) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string output = weft_table;
    for (unsigned i = 0; i <= random() % 20; ++i)
      output[random() % output.size()] = static_cast<char>(random());
    const BenchRun run = BenchRun::parse(output);
    for (std::size_t i = 0; i < run.rows.size(); ++i) {
      ASSERT_TRUE(run.rows[i].seconds > 0 && std::isfinite(run.rows[i].seconds));
      ASSERT_TRUE(i == 0 || run.rows[i - 1].bytes < run.rows[i].bytes);
    }
  }
}

TEST(TuningInterval, IsStudentsWhereNothingIsTrimmed) {
  // Mean 2.5, deviation 1.29099; t of 3 degrees at 0.975 is 3.18245 (tables).
  const Interval four = interval_of({4, 1, 3, 2}, 0.975);
  EXPECT_DOUBLE_EQ(four.middle, 2.5);
  EXPECT_NEAR(four.greatest, 2.5 + 3.18245 * 1.290994 / 2, 1e-5);
  EXPECT_NEAR(four.least, 2.5 - 3.18245 * 1.290994 / 2, 1e-5);
}

TEST(TuningInterval, TwoDisturbedPairsOfTenDoNotMoveIt) {
  const std::vector<double> calm{-0.05, -0.06, -0.04, -0.05, -0.055, -0.045, -0.05, -0.052, -0.048, -0.05};
  std::vector<double> disturbed = calm;
  disturbed[3] = 5;
  disturbed[7] = 0.4;
  EXPECT_LT(interval_of(disturbed, 0.9875).greatest, -0.035);
  EXPECT_NEAR(interval_of(disturbed, 0.975).middle, interval_of(calm, 0.975).middle, 0.003);
}

TEST(TuningInterval, HoldsTheTruthAboutAsOftenAsItSays) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> steady;
  std::cauchy_distribution<double> wild;
  int outside_steady = 0;
  int outside_wild = 0;
  const auto misses = [](const std::vector<double>& logs) {
    const Interval interval = interval_of(logs, 0.975);
    return interval.least > 0.5 || interval.greatest < 0.5 ? 1 : 0;
  };
  for (int round = 0; round < 4000; ++round) {
    std::vector<double> logs(10);
    for (double& one : logs) one = 0.5 + steady(random);
    outside_steady += misses(logs);
    for (double& one : logs) one = 0.5 + wild(random);
    outside_wild += misses(logs);
  }
  EXPECT_NEAR(outside_steady / 4000.0, 0.05, 0.015);
  EXPECT_LT(outside_wild / 4000.0, 0.05);
}

TEST(TuningInterval, OfNoneOrOnePairHasNoEnds) {
  EXPECT_EQ(interval_of({}, 0.975).middle, 0);
  EXPECT_TRUE(std::isinf(interval_of({}, 0.975).greatest));
  EXPECT_EQ(interval_of({0.5}, 0.975).middle, 0.5);
  EXPECT_TRUE(std::isinf(interval_of({0.5}, 0.975).least));
  EXPECT_NEAR(interval_of(std::vector<double>(1000, 0.25), 0.975).greatest, 0.25, 1e-12);
}

TEST(TuningRanges, ASizeKeepsTheAlgorithmOfTheOneBeforeUnlessAnotherIsBetterByMore) {
  const std::map<std::string, GainBySize> gains{
      {"tree", {{8, -0.3}, {64, -0.1}, {512, 0.2}, {4096, 0.2}}},
      {"ring", {{8, 0.5}, {64, -0.11}, {512, -0.01}, {4096, -0.2}}}};
  EXPECT_EQ(fastest_ranges(gains, 0.02), (std::vector<Range>{{0, "tree"}, {512, ""}, {4096, "ring"}}));
  EXPECT_EQ(algorithm_at(fastest_ranges(gains, 0.02), 100), "tree");
  EXPECT_EQ(algorithm_at(fastest_ranges(gains, 0.02), 600), "");
  EXPECT_TRUE(fastest_ranges({{"tree", {{8, 0.1}, {64, -0.01}}}}, 0.02).empty());
}

TEST(TuningSpace, AsksForWhatSuitsTheNetworkAndLeavesTheUsersVariablesAlone) {
  const auto none = [](const std::string&) { return false; };
  const auto names = [](const Space& space) {
    std::string all;
    for (const Variable& one : space.variables) all += one.name + ' ';
    return all;
  };
  const Facts facts{
      .library = Library::nccl, .collective = "allreduce", .ranks = 16, .nodes = 2, .network = "Socket"};
  EXPECT_EQ(names(nccl_space(facts, none)),
            "NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD NCCL_CROSS_NIC NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS "
            "NCCL_BUFFSIZE NCCL_NTHREADS ");
  EXPECT_EQ(nccl_space(facts, none).algorithms.size(), 10u);
  EXPECT_EQ(nccl_space(facts, none).size(), 2u * 2 * 2 * 4 * 2 * 3 * 3 * 11);
  Facts inside = facts;
  inside.network = "IB";
  inside.nodes = 1;
  const Space left = nccl_space(
      inside, [](const std::string& name) { return name == "NCCL_BUFFSIZE" || name == "NCCL_ALGO"; });
  EXPECT_EQ(names(left),
            "NCCL_IB_QPS_PER_CONNECTION NCCL_IB_SPLIT_DATA_ON_QPS NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS "
            "NCCL_NTHREADS ");
  EXPECT_TRUE(left.algorithms.empty());
}

TEST(TuningSpace, OfWeftHasOnlyAlgorithmsThatKeepTheOrderUnlessAnyWillDo) {
  const auto none = [](const std::string&) { return false; };
  Facts facts{
      .library = Library::weft, .collective = "all_reduce", .ranks = 2, .nodes = 2, .network = "host (UCX)"};
  EXPECT_EQ(weft_space(facts, none).algorithms, (std::vector<std::string>{"small", "doubling", "pairwise"}));
  facts.any_order = true;
  facts.under_mpi = true;
  EXPECT_EQ(weft_space(facts, none).algorithms,
            (std::vector<std::string>{"small", "doubling", "pairwise", "ring", "halving", "tree", "mpi"}));
  EXPECT_EQ(weft_space(facts, none).variables[0].values, (std::vector<std::string>{"tcp", "mpi"}));
  facts.network = "host (shared memory)";
  EXPECT_TRUE(weft_space(facts, none).algorithms.empty());
  EXPECT_EQ(weft_space(facts, none).size(), 3u);
}

TEST(TuningSpace, ChoicesLeaveOutWhatNothingReads) {
  const Space space{.variables = {{"WIRE", {"a", "b"}}, {"SEGMENT", {"1", "2"}, "WIRE"}, {"THREADS", {"4"}}},
                    .algorithms = {"ring"}};
  EXPECT_EQ(space.choices(100, 1).size(), (3u + 2) * 2 - 1);
  EXPECT_EQ(space.size(), (3u + 2) * 2 * 2);
  for (const Choice& choice : space.choices(100, 1))
    EXPECT_FALSE(choice.contains("WIRE") && choice.contains("SEGMENT"));
  const auto few = space.choices(6, 1);
  EXPECT_EQ(few.size(), 6u);
  EXPECT_EQ(std::ranges::count_if(few, [](const Choice& one) { return one.size() == 1; }), 5);
  EXPECT_EQ(space.choices(2, 1).size(), 5u);
}

TEST(TuningCommand, FindsTheBenchmarkBehindItsLauncher) {
  const Command mpi = Command::parse({"/usr/bin/mpirun", "-n", "4", "./all_reduce_perf", "-b", "8"});
  EXPECT_EQ(mpi.library, Library::nccl);
  EXPECT_EQ(mpi.collective, "allreduce");
  EXPECT_EQ(mpi.with({{"A", "1"}, {"B", "x y"}}),
            (std::vector<std::string>{"/usr/bin/mpirun", "-x", "A=1", "-x", "B=x y", "-n", "4",
                                      "./all_reduce_perf", "-b", "8"}));
  const Command weft = Command::parse(
      {"weft-launch", "-n", "2", "sh", "-c", "exec \"$@\"", "sh", "bin/weft-bench", "all_gather"});
  EXPECT_EQ(weft.library, Library::weft);
  EXPECT_EQ(weft.collective, "all_gather");
  EXPECT_EQ(weft.with({{"A", "1"}}), weft.words);
}

TEST(TuningCommand, RefusesWhatSettingsWouldNotReach) {
  expect_error(ErrorKind::usage, {"the command runs no benchmark that can be tuned"}, [] {
    Command::parse({"mpirun", "-n", "2", "train"});
  });
  expect_error(ErrorKind::usage, {"the command runs no benchmark"}, [] { Command::parse({}); });
  expect_error(ErrorKind::usage, {"'kubectl' starts processes whose environment"}, [] {
    Command::parse({"kubectl", "exec", "pod", "--", "all_reduce_perf"});
  });
  expect_error(ErrorKind::usage, {"'--export=NONE' keeps settings"}, [] {
    Command::parse({"srun", "--export=NONE", "all_reduce_perf"});
  });
  expect_error(ErrorKind::usage, {"'all' is nothing that can be tuned"}, [] {
    Command::parse({"weft-bench", "all"});
  });
  expect_error(ErrorKind::usage, {"'' is nothing that can be tuned"}, [] { Command::parse({"weft-bench"}); });
}

TEST(TuningFiles, OfNcclAreReadBackByItsTuner) {
  const Setting setting{.variables = {{"NCCL_BUFFSIZE", "8388608"}},
                        .ranges = {{0, "tree/ll"}, {65536, ""}, {1048576, "ring/simple"}}};
  const Facts facts{.library = Library::nccl, .collective = "allreduce", .ranks = 16, .nodes = 2};
  const auto files = files_of(setting, facts, {.table = "/shared dir/t.csv", .tuner = "weft"});
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[0].name, "nccl.conf");
  EXPECT_EQ(files[0].content,
            "# Written by weft-report tune.\nNCCL_BUFFSIZE=8388608\nNCCL_TUNER_CONFIG_FILE=/shared "
            "dir/t.csv\nNCCL_TUNER_PLUGIN=weft\n");
  EXPECT_NE(files[1].content.find("export NCCL_TUNER_CONFIG_FILE='/shared dir/t.csv'\n"), std::string::npos);
  EXPECT_EQ(
      files[2].content,
      "-x NCCL_BUFFSIZE=8388608 -x NCCL_TUNER_CONFIG_FILE='/shared dir/t.csv' -x NCCL_TUNER_PLUGIN=weft\n");
  const tuner::Table table = tuner::Table::parse(files[3].content);
  EXPECT_TRUE(table.bad.empty());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].max_bytes, 65535u);
  EXPECT_EQ(table.rows[0].choice(), "tree/ll");
  EXPECT_EQ(table.rows[1].min_bytes, 1048576u);
  EXPECT_EQ(table.rows[1].ranks, 16);
  EXPECT_EQ(table.rows[1].nodes, 2);
}

TEST(TuningFiles, OfNcclNameOnlyAlgorithmsThatTheTunerKnows) {
  const Facts facts{.library = Library::nccl, .collective = "allreduce", .ranks = 16, .nodes = 2};
  for (const std::string& algorithm :
       nccl_space(facts, [](const std::string&) { return false; }).algorithms) {
    const tuner::Table table =
        tuner::Table::parse(table_of({.variables = {}, .ranges = {{0, algorithm}}}, facts));
    EXPECT_TRUE(table.bad.empty()) << algorithm;
    EXPECT_EQ(table.rows.size(), 1u) << algorithm;
  }
}

TEST(TuningFiles, OfWeftWriteItsOwnChoiceDownWhereItComesBack) {
  const Setting setting{.variables = {}, .ranges = {{0, "pairwise"}, {1024, ""}, {1048576, "small"}}};
  const Facts facts{.library = Library::weft, .collective = "all_reduce", .ranks = 2, .nodes = 2};
  const AlgorithmTable table = AlgorithmTable::parse(table_of(setting, facts), "a test");
  for (const std::uint64_t bytes : {8, 1023, 1024, 8192, 8193, 1048575, 1048576}) {
    const auto row = table.find(ReductionOrder::rank, Collective::all_reduce, 2, bytes);
    ASSERT_TRUE(row);
    const Algorithm expected = bytes < 1024 ? Algorithm::pairwise
                               : bytes < 1048576
                                   ? AlgorithmTable::built_in()
                                         .find(ReductionOrder::rank, Collective::all_reduce, 2, bytes)
                                         ->algorithm
                                   : Algorithm::small;
    EXPECT_EQ(row->algorithm, expected) << bytes;
  }
}

TEST(TuningFiles, WhereNothingWasFasterSayNothing) {
  const Facts facts{.library = Library::nccl, .collective = "allreduce", .ranks = 16, .nodes = 2};
  const auto files = files_of({}, facts, {.table = "t.csv", .tuner = "weft"});
  EXPECT_EQ(files[0].content, "# Written by weft-report tune.\n");
  EXPECT_EQ(files[2].content, "\n");
  std::vector<std::string> names;
  for (const SettingFile& file : files) names.push_back(file.name);
  EXPECT_EQ(names, file_names(Library::nccl));
}

}  // namespace
}  // namespace weft::report::tuning
