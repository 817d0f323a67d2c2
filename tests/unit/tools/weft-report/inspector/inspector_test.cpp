// Runs whose answer is known: healthy ones, a rank that others wait for or that takes longer, a size that becomes slower, tables of nccl-tests.

#include "weft-report/inspector/inspector.hpp"

#include <gtest/gtest.h>

#include "support/draw.hpp"
#include "unit/tools/weft-report/inspector/runs.hpp"
#include "weft-report/nccl/nccl.hpp"

namespace weft::report::inspector {
namespace {

using test::MadeUp;
using test::records_of;
using weft::test::Draw;

Conclusions conclude_on(const MadeUp& run, Job* kept = nullptr) {
  const Job job = job_of(records_of(run));
  if (kept != nullptr) *kept = job;
  return conclude(job, {});
}
std::string words_of(const Conclusions& all) {
  std::string words;
  for (const Named& one : all.findings) words += one.finding.cause + ": " + one.finding.verdict + "\n";
  return words;
}

TEST(InspectorStragglers, HealthyRunsHaveNone) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Conclusions all = conclude_on({.seed = seed});
    EXPECT_TRUE(all.findings.empty()) << "seed " << seed << ": " << words_of(all);
  }
}

TEST(InspectorStragglers, ThreePercentAmong64RanksAreFound) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const bool waits : {true, false}) {
      const int rank = static_cast<int>(seed * 13 % 64);
      const Conclusions all = conclude_on({.seed = 1000 + seed, .straggler = rank, .waits = waits});
      ASSERT_EQ(all.findings.size(), 1U) << words_of(all);
      EXPECT_EQ(all.findings[0].finding.cause, "straggler");
      EXPECT_EQ(all.findings[0].ranks, std::vector<std::int64_t>{rank});
      const Straggler& one = all.comparisons[0].stragglers.at(0);
      EXPECT_EQ(one.last(), waits) << "the others wait for a rank whose times are shorter";
      EXPECT_NEAR(std::abs(one.share), 0.03, 0.006);
      EXPECT_TRUE(one.from_the_start);
    }
  }
}

TEST(InspectorStragglers, TheBeginningIsFound) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const double begins = 0.3 + 0.04 * static_cast<double>(seed);
    const Conclusions all = conclude_on({.seed = 2000 + seed, .straggler = 5, .begins = begins});
    ASSERT_EQ(all.findings.size(), 1U) << words_of(all);
    const Straggler& one = all.comparisons[0].stragglers.at(0);
    EXPECT_EQ(one.member, 5U);
    EXPECT_FALSE(one.from_the_start);
    // Two all_reduces a step, 100 steps, 24 blocks.
    ASSERT_TRUE(one.kind == Kind::all_reduce);
    EXPECT_NEAR(one.since, 200 * begins, 20) << "seed " << seed;
  }
}

TEST(InspectorStragglers, AllRanksOfAHostAreOneFinding) {
  const Conclusions all = conclude_on({.seed = 3, .straggler = 17, .whole_node = true});
  ASSERT_EQ(all.findings.size(), 1U) << words_of(all);
  EXPECT_EQ(all.findings[0].ranks, (std::vector<std::int64_t>{16, 17, 18, 19, 20, 21, 22, 23}));
  EXPECT_NE(all.findings[0].finding.verdict.find("all 8 ranks on node2 come last"), std::string::npos)
      << words_of(all);
}

TEST(InspectorStragglers, AgreeWithThePlainTwin) {
  Job job;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Conclusions all = conclude_on({.seed = seed, .ranks = 16, .straggler = 3, .share = 0.1}, &job);
    const std::vector<double> plain = plain_shares(job.communicators[0]);
    ASSERT_EQ(plain.size(), all.comparisons[0].ranks.size());
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_NEAR(plain[i], all.comparisons[0].ranks[i].share, 0.01);
  }
}

TEST(InspectorStragglers, SmallCommunicatorsDoNotRaiseAlarms) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Conclusions all = conclude_on({.seed = seed, .ranks = ranks});
      EXPECT_TRUE(all.findings.empty()) << ranks << " ranks, seed " << seed << ": " << words_of(all);
    }
    if (ranks < 2) continue;
    const Conclusions all = conclude_on({.seed = 77, .ranks = ranks, .straggler = 1, .share = 0.1});
    ASSERT_EQ(all.findings.size(), 1U) << ranks << " ranks: " << words_of(all);
    EXPECT_EQ(all.findings[0].ranks, std::vector<std::int64_t>{1});
  }
}

TEST(InspectorStragglers, TimesOfACpusClockAreNotCompared) {
  auto files = records_of({.seed = 4});
  for (Record& record : files[9].records) {
    record.by_gpu = false;
    record.microseconds *= 1.3F;
  }
  const Conclusions all = conclude(job_of(std::move(files)), {});
  for (const Named& one : all.findings) EXPECT_NE(one.finding.cause, "straggler") << words_of(all);
  EXPECT_EQ(all.findings.at(0).finding.cause, "inspector-timed-by-cpu");
}

TEST(InspectorStragglers, UnequalHalvesNameNoRank) {
  auto files = records_of({.seed = 4});
  for (std::size_t i = 0; i < files.size() / 2; ++i) {
    for (Record& record : files[i].records) record.microseconds *= 1.2F;
  }
  const Conclusions all = conclude(job_of(std::move(files)), {});
  EXPECT_TRUE(all.findings.empty()) << words_of(all);
}

// The latest of 64 is then by 2 % and more from the middle, as one of 64 has to be.
TEST(InspectorStragglers, RanksOfWhichEachHasAnotherSpeedNameNone) {
  std::mt19937_64 random(9);
  for (int run = 0; run < 5; ++run) {
    auto files = records_of({.seed = 9});
    for (FileRecords& file : files) {
      double normal = -6;  // of 12 numbers from 0 to 1: variance 1
      for (int i = 0; i < 12; ++i) normal += static_cast<double>(random() >> 11) * 0x1p-53;
      for (Record& record : file.records) record.microseconds *= static_cast<float>(1 + 0.01 * normal);
    }
    const Conclusions all = conclude(job_of(std::move(files)), {});
    EXPECT_TRUE(all.findings.empty()) << words_of(all);
  }
}

TEST(InspectorStragglers, OperationsThatOnlySomeRanksHaveAreCompared) {
  // Before 2.30 a dump writes the last operation alone: each rank has others.
  auto files = records_of({.seed = 6, .steps = 400, .straggler = 21, .share = 0.05});
  std::mt19937_64 random(6);
  for (FileRecords& file : files)
    std::erase_if(file.records, [&](const Record&) { return random() % 100 < 30; });
  const Conclusions all = conclude(job_of(std::move(files)), {});
  ASSERT_FALSE(all.findings.empty());
  EXPECT_EQ(all.findings[0].finding.cause, "straggler");
  EXPECT_EQ(all.findings[0].ranks, std::vector<std::int64_t>{21});
  EXPECT_EQ(all.findings.back().finding.cause, "inspector-operations-lost") << words_of(all);
}

TEST(InspectorChanges, ASizeThatBecomesSlowerIsNamedWithItsBeginning) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Conclusions all = conclude_on({.seed = seed, .ranks = 8, .steps = 200, .slower_after = 0.6});
    ASSERT_EQ(all.findings.size(), 1U) << words_of(all);
    EXPECT_EQ(all.findings[0].finding.cause, "collective-slower");
    EXPECT_NE(all.findings[0].finding.verdict.find("64 MiB"), std::string::npos);
    const auto row =
        std::ranges::find_if(all.rows, [](const SizeRow& one) { return one.change.has_value(); });
    ASSERT_NE(row, all.rows.end());
    EXPECT_NEAR(row->change->number, 240, 20);
    EXPECT_NEAR(row->change->times(), 1.5, 0.1);
  }
}

TEST(InspectorRows, ALateRanksTimeStandsForTheOperation) {
  const Conclusions all = conclude_on({.seed = 8, .straggler = 2, .share = 0.5});
  const auto row =
      std::ranges::find_if(all.rows, [](const SizeRow& one) { return one.kind == Kind::all_gather; });
  ASSERT_NE(row, all.rows.end());
  EXPECT_NEAR(row->median_us, 700, 20) << "the others wait half as long again";
}

TEST(InspectorGaps, MissingRanksAreSaid) {
  auto files = records_of({.seed = 4});
  files.resize(60);
  const Conclusions all = conclude(job_of(std::move(files)), {});
  ASSERT_EQ(all.findings.size(), 1U) << words_of(all);
  EXPECT_EQ(all.findings[0].finding.cause, "inspector-ranks-missing");
  EXPECT_TRUE(all.findings[0].finding.severity == Severity::notice);
  EXPECT_NE(all.findings[0].finding.verdict.find("60 of 64 ranks"), std::string::npos);
}

/// A line of nccl-tests for each size, and Inspector's files of the same run: 20 operations out of place, 20 in place.
struct SameRun {
  std::string table{};
  std::vector<FileRecords> files{};
};
SameRun same_run(Draw& draw, int ranks, int nodes) {
  SameRun run;
  run.table =
      "# nThread 1 nGpus 1 minBytes 65536 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg "
      "iters: 1 validation: 1 graph: 0\n"
      "#\n# Using devices\n";
  for (int rank = 0; rank < ranks; ++rank)
    run.table += text("#  Rank  ", rank, " Group  0 Pid   ", 100 + rank, " on node", rank * nodes / ranks,
                      " device  ", rank % 8, " [0000:18:00] NVIDIA H100 80GB HBM3\n");
  run.table +=
      "#\n#                                                              out-of-place                       "
      "in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw "
      "  busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s) "
      " (GB/s)       \n";
  for (int rank = 0; rank < ranks; ++rank)
    run.files.push_back({.members = {{.id = "0x1",
                                      .rank = rank,
                                      .ranks = ranks,
                                      .nodes = nodes,
                                      .host = text("node", rank * nodes / ranks),
                                      .pid = 100 + rank}},
                         .objects = 1});
  const double peak = 40.0 + draw.below(400);
  std::uint32_t number = 0;
  for (std::uint64_t bytes = 65536; bytes <= (1U << 30); bytes *= 2) {
    const double factor = 2.0 * (ranks - 1) / ranks;
    double busbw = peak / (1 + 4e6 / static_cast<double>(bytes));
    if (draw.below(8) == 0) busbw *= 0.4 + 0.05 * draw.below(8);
    const double time = static_cast<double>(bytes) * factor / busbw / 1000;
    run.table += text(bytes, ' ', bytes / 4, " float sum -1");
    for (int half = 0; half < 2; ++half) {
      run.table += text(' ', time, ' ', static_cast<double>(bytes) / time / 1000, ' ', busbw, " 0");
      for (int i = 0; i < 20; ++i, ++number) {
        for (FileRecords& file : run.files) {
          file.records.push_back({.number = number,
                                  .microseconds = static_cast<float>(time),
                                  .size = static_cast<std::uint16_t>(file.sizes.size()),
                                  .kind = Kind::all_reduce,
                                  .by_gpu = true});
        }
      }
    }
    run.table += "\n";
    for (FileRecords& file : run.files) file.sizes.push_back(bytes);
  }
  run.table += "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100\n#\n";
  return run;
}

TEST(InspectorBandwidth, VerdictsAgreeWithThoseOnTablesOfTheSameRuns) {
  Draw draw(11);
  int found = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int nodes = 1 + draw.below(2);
    SameRun run = same_run(draw, 8 * nodes, nodes);
    const std::string beside =
        nodes == 1 ? ""
                   : "node0:100:100 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
                     "node0:100:100 [0] NCCL INFO NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 "
                     "context=0x5 pciPath=/sys/devices/pci0 ar=1\n";
    nccl::JobLog log;
    log.add(beside, "beside.log");
    nccl::JobLog table;
    table.add(beside + run.table, "table.log");
    const auto expected = bandwidth::judge(table.job());
    ASSERT_EQ(expected.size(), 1U);
    const Conclusions all = conclude(job_of(std::move(run.files)), log.job(), "NVIDIA H100 80GB HBM3");
    const auto judged = bandwidth::judge(all.judged);
    ASSERT_EQ(judged.size(), 1U);
    EXPECT_EQ(judged[0].op, "all_reduce");
    EXPECT_EQ(judged[0].shape.nodes, nodes);
    EXPECT_EQ(judged[0].speed.bound.busbw, expected[0].speed.bound.busbw);
    EXPECT_EQ(judged[0].speed.bytes, expected[0].speed.bytes);
    EXPECT_NEAR(judged[0].speed.fraction, expected[0].speed.fraction, 1e-3);
    ASSERT_EQ(judged[0].speed.falls.size(), expected[0].speed.falls.size());
    for (std::size_t i = 0; i < judged[0].speed.falls.size(); ++i)
      EXPECT_EQ(judged[0].speed.falls[i].bytes, expected[0].speed.falls[i].bytes);
    for (const char* cause : {"bandwidth-low", "size-falls-off", "one-nic-of-several"}) {
      const auto of_table = nccl::examine(table.job());
      const bool there = std::ranges::count(of_table, cause, &Finding::cause) > 0;
      const auto own = all.plain();
      EXPECT_EQ(std::ranges::count(own, cause, &Finding::cause) > 0, there) << cause << ", trial " << trial;
      found += there ? 1 : 0;
    }
  }
  EXPECT_GT(found, 20) << "the trials hold something to find";
}

TEST(InspectorBandwidth, APartOfTheNodesProcessesHasNoBoundOfTheirNetworkCards) {
  std::vector<FileRecords> files;
  for (int group = 0; group < 2; ++group) {
    for (auto& file : records_of({.seed = 3, .ranks = 4, .per_node = 2})) {
      file.members[0].id = text("0x", group);
      file.members[0].pid += 100 * group;
      files.push_back(std::move(file));
    }
  }
  const Job job = job_of(std::move(files));
  nccl::JobLog log;
  log.add(
      "node0:100:100 [0] NCCL INFO NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x5 "
      "pciPath=/sys/devices/pci0 ar=1\n",
      "l");
  const Conclusions all = conclude(job, log.job(), "NVIDIA H100 80GB HBM3");
  ASSERT_FALSE(bandwidth::judge(all.judged).empty());
  for (const bandwidth::Judged& one : bandwidth::judge(all.judged)) EXPECT_EQ(one.speed.bound.busbw, 0);
}

TEST(InspectorPage, HoldsCurvesAndEveryRank) {
  Job job;
  const Conclusions all = conclude_on({.seed = 1, .straggler = 17}, &job);
  const auto parts = sections(job, all);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_NE(parts[0].html.find("all_reduce, 0x7f8c496ae9f661 (DP Group 0), 64 ranks"), std::string::npos);
  EXPECT_NE(parts[1].html.find("rank 63 on node7"), std::string::npos);
  EXPECT_NE(parts[1].html.find("exposed"), std::string::npos) << "the one that is named is marked";
}

}  // namespace
}  // namespace weft::report::inspector
