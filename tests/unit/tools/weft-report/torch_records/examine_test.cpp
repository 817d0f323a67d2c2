// What the dumps of a job show: each finding in a job that has it, and not in one nearly the same.

#include <gtest/gtest.h>

#include "unit/tools/weft-report/flight/flights.hpp"
#include "unit/tools/weft-report/torch_records/torch_dumps.hpp"

namespace weft::report::torch_records {
namespace {

using test::causes;
using test::torch_entry;
using test::torch_job;
using test::words;
using Causes = std::vector<std::string>;
using Entries = std::vector<TorchEntry>;

TorchEntry open(std::int64_t number, TorchState state = TorchState::started) {
  return torch_entry(number, "12 Float", state);
}

TEST(TorchFindings, AreNoneWhereAllHasEnded) {
  const Entries all{torch_entry(1), torch_entry(2)};
  EXPECT_TRUE(examine_torch(torch_job({all, all, all})).empty());
}

/// gloo of PyTorch 2.10 and later: pg_config names no group, entries name '0'.
TEST(TorchFindings, OfABackendThatNamesNoGroupAreOfItsEntries) {
  std::vector<FlightRecord> job;
  for (int rank = 0; rank < 3; ++rank) {
    std::string json = test::torch_json(rank, 3, {torch_entry(1), open(2, TorchState::scheduled)});
    if (rank == 1)
      json = test::torch_json(rank, 3, {torch_entry(1), torch_entry(2, "7 Float", TorchState::scheduled)});
    const std::string named = R"("0":{"name":"0","desc":"default_pg")";
    json.replace(json.find(named), named.size(), R"("":{"name":"","desc":"")");
    add_record(job, flight_of(parse_dump(json, "_dump_fr_trace_" + std::to_string(rank))));
  }
  ASSERT_EQ(job[1].communicators.size(), 1U);
  EXPECT_EQ(job[1].communicators[0].name, "0");
  const auto findings = examine_torch(job);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].cause, "rank-diverged");
}

TEST(TorchFindings, RankThatStoppedIsNamedWithWhereOthersWait) {
  const Entries ahead{torch_entry(1), open(2)};
  const auto findings = examine_torch(torch_job({ahead, {torch_entry(1)}, ahead}));
  ASSERT_EQ(causes(findings), Causes{"rank-behind"});
  EXPECT_EQ(findings[0].severity, Severity::critical);
  EXPECT_EQ(findings[0].verdict,
            "rank 1 is behind on '0:default_pg' (device): ranks 0, 2 wait in all_reduce #2");
  EXPECT_NE(
      words(findings[0]).find("rank 0 waits in all_reduce #2 of 12 Float, from step at train.py:44, begun"),
      std::string::npos)
      << words(findings[0]);
  EXPECT_TRUE(examine_torch(torch_job({{torch_entry(1), torch_entry(2)}, {torch_entry(1)}})).empty());
}

TEST(TorchFindings, RanksThatDifferAreNamedWithWhatTheyIssued) {
  const Entries right{torch_entry(1), open(2)};
  TorchEntry other = open(2);
  other.name = "_all_gather_base";
  for (const TorchEntry& wrong : {torch_entry(2, "13 Float", TorchState::started),
                                  torch_entry(2, "12 Half", TorchState::started), other}) {
    const auto findings = examine_torch(torch_job({right, right, {torch_entry(1), wrong}}));
    ASSERT_EQ(causes(findings), Causes{"rank-diverged"});
    EXPECT_NE(findings[0].verdict.find("rank 2 diverged at #2 of '0:default_pg' (device)"), std::string::npos)
        << findings[0].verdict;
    EXPECT_NE(
        words(findings[0]).find("ranks 0, 1 issued all_reduce #2 of 12 Float, from step at train.py:44"),
        std::string::npos)
        << words(findings[0]);
  }
}

TEST(TorchFindings, PartsThatMayDifferAreNoDifference) {
  for (const char* name :
       {"all_to_all", "alltoall_base", "gather", "all_gather", "scatter", "reduce_scatter"}) {
    TorchEntry one = torch_entry(1);
    one.name = name;
    TorchEntry other = one;
    const bool outputs = one.name == "gather" || one.name == "reduce_scatter";
    (outputs ? other.outputs : other.inputs) = {"99 Float"};
    EXPECT_TRUE(examine_torch(torch_job({{one}, {other}})).empty()) << name;
    (outputs ? other.inputs : other.outputs) = {"99 Float"};
    const bool uneven = one.name.starts_with("all_to_all") || one.name.starts_with("alltoall");
    EXPECT_EQ(examine_torch(torch_job({{one}, {other}})).empty(), uneven) << name;
  }
}

TEST(TorchFindings, RankWithoutDumpIsNamed) {
  std::vector<FlightRecord> job =
      torch_job({{torch_entry(1), open(2)}, {torch_entry(1), open(2)}, {torch_entry(1), open(2)}});
  job.erase(job.begin() + 1);
  const auto findings = examine_torch(job);
  ASSERT_EQ(causes(findings), Causes{"rank-left-no-record"});
  EXPECT_EQ(findings[0].evidence.at(0).file, "nccl_trace_rank_1");
}

TEST(TorchFindings, CollectiveInWhichAllAreSaysWhoHasBegun) {
  const Entries begun{torch_entry(1), open(2)};
  const auto stuck = examine_torch(torch_job({begun, begun}));
  ASSERT_EQ(causes(stuck), Causes{"collective-stuck"});
  EXPECT_NE(stuck[0].fix.find("all ranks are in it"), std::string::npos);
  const auto queued = examine_torch(torch_job({begun, {torch_entry(1), open(2, TorchState::scheduled)}}));
  ASSERT_EQ(causes(queued), Causes{"collective-stuck"});
  EXPECT_NE(queued[0].fix.find("see what runs before it on the devices of rank 1"), std::string::npos)
      << queued[0].fix;
  EXPECT_NE(words(queued[0]).find("on rank 1 all_reduce #2 of 12 Float, from step at train.py:44 is queued"),
            std::string::npos)
      << words(queued[0]);
  const auto through = examine_torch(torch_job({{torch_entry(1), torch_entry(2)}, begun}));
  ASSERT_EQ(causes(through), Causes{"collective-stuck"});
  EXPECT_NE(through[0].fix.find("others are through it: see the device and the connections of rank 1"),
            std::string::npos)
      << through[0].fix;
}

TEST(TorchFindings, CollectiveWhoseBeginIsNeverNotedIsNotCalledQueued) {
  TorchEntry ended = torch_entry(1);
  ended.started_ns = 0;
  const Entries untimed{ended, open(2, TorchState::scheduled)};
  const auto findings = examine_torch(torch_job({untimed, untimed}));
  ASSERT_EQ(causes(findings), Causes{"collective-stuck"});
  EXPECT_NE(words(findings[0]).find("TORCH_NCCL_ENABLE_TIMING=1"), std::string::npos);
  EXPECT_EQ(words(findings[0]).find("queued"), std::string::npos);
}

TEST(TorchFindings, CollectiveThatWasGivenUpIsSurer) {
  TorchEntry given_up = open(2);
  given_up.retired = true;
  const auto sure = examine_torch(torch_job({{torch_entry(1), given_up}, {torch_entry(1), open(2)}}));
  ASSERT_EQ(causes(sure), Causes{"collective-stuck"});
  EXPECT_NE(sure[0].verdict.find("PyTorch gave it up after 600 s"), std::string::npos) << sure[0].verdict;
  EXPECT_GT(sure[0].confidence, examine_torch(torch_job({{open(2)}, {open(2)}})).at(0).confidence);
}

TEST(TorchFindings, EntriesThatAreOverwrittenAreSaidToBe) {
  Entries newest;
  for (std::int64_t number = 900; number < 1000; ++number) newest.push_back(torch_entry(number));
  newest.push_back(open(1000));
  const auto findings = examine_torch(torch_job({newest, {torch_entry(10), torch_entry(11)}}));
  ASSERT_EQ(causes(findings), (Causes{"rank-behind", "records-overwritten"}));
  EXPECT_EQ(findings[1].severity, Severity::notice);
  EXPECT_EQ(causes(examine_torch(torch_job({newest, {torch_entry(898), torch_entry(899)}}))),
            Causes{"rank-behind"});
}

}  // namespace
}  // namespace weft::report::torch_records
