// What a watch says of answers that come one after another, in seconds that the test chooses.

#include <gtest/gtest.h>

#include "unit/tools/weft-report/ras/recorded_answers.hpp"
#include "weft-report/watch/figures.hpp"

namespace weft::report {
namespace {

using test::recorded_answer;
using Lines = std::vector<std::string>;

ras::Answer answer(const std::string& state, std::uint64_t more = 0,
                   const std::string& form = "2.30.7 json") {
  ras::Answer one = ras::parse_answer(recorded_answer(form, state), "node7:28028");
  for (ras::Communicator& communicator : one.communicators) {
    for (ras::Collective& collective : communicator.collectives) {
      for (ras::Launched& level : collective.levels) level.operations += more;
    }
  }
  return one;
}

std::string standing(const Watch& watch) {
  std::string all;
  for (const ras::RasFinding& one : watch.standing()) {
    all += (all.empty() ? "" : "; ") + std::string(name(one.finding.severity)) + ' ' + one.finding.cause;
    for (const int rank : one.ranks) all += ' ' + std::to_string(rank);
  }
  return all;
}

TEST(Watch, SaysWhoAnswersAndNothingOfAJobThatGoesOn) {
  Watch watch(30);
  EXPECT_EQ(watch.missed("nobody is there"), Lines{"waits for a job: nobody is there"});
  EXPECT_EQ(watch.missed("nobody is there"), Lines{});
  EXPECT_EQ(watch.answered(0, answer("well")), Lines{"NCCL 2.30.7 answers at node7:28028: 1 communicator"});
  for (int i = 1; i < 100; ++i) {
    // Each rank is behind by one now and then: it was asked a moment earlier.
    EXPECT_EQ(watch.answered(i * 10, answer(i % 3 == 0 ? "one-behind-by-one" : "well",
                                            static_cast<std::uint64_t>(i * 7))),
              Lines{})
        << i;
  }
  EXPECT_EQ(standing(watch), "");
}

TEST(Watch, NamesARankThatStandsStillAfterThirtySeconds) {
  Watch watch(30);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(watch.answered(i * 10, answer("one-behind-by-one")).size() == (i == 0 ? 1U : 0U)) << i;
    EXPECT_EQ(standing(watch), "") << i;
  }
  const Lines lines = watch.answered(30, answer("one-behind-by-one"));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].find("critical: rank 3 (process 5003 on node 10.0.0.2 (GPU 1)) is 1 operation behind"),
            0U)
      << lines[0];
  EXPECT_NE(lines[0].find("has launched nothing for 30 s"), std::string::npos);
  EXPECT_EQ(standing(watch), "critical rank-behind 3");
  EXPECT_EQ(watch.answered(40, answer("one-behind-by-one")), Lines{});
  const Lines over = watch.answered(50, answer("one-behind-by-one", 1));
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].find("over: "), 0U);
  EXPECT_EQ(standing(watch), "");
}

TEST(Watch, IsNotAlarmedByASlowRank) {
  Watch watch(30);
  for (int i = 0; i < 20; ++i)
    (void)watch.answered(i * 10, answer("one-far-behind", static_cast<std::uint64_t>(i)));
  EXPECT_EQ(standing(watch), "");
}

TEST(Watch, NamesAJobThatStandsStill) {
  Watch watch(30);
  for (int i = 0; i < 5; ++i) (void)watch.answered(i * 10, answer("well"));
  EXPECT_EQ(standing(watch), "warning no-progress");
}

TEST(Watch, WaitsForASecondAnswerWithWhatMayBeAMoment) {
  for (const std::string state : {"silent", "left", "aborted", "errors", "other-operation"}) {
    Watch watch(30);
    (void)watch.answered(0, answer("well"));
    EXPECT_EQ(watch.answered(10, answer(state)), Lines{}) << state;
    (void)watch.answered(20, answer(state));
    EXPECT_NE(standing(watch), "") << state;
  }
  Watch watch(30);
  EXPECT_EQ(watch.answered(0, answer("dead")).size(), 2U);  // that NCCL has waited for
}

/// A silent process is named in less than 40 s, although the others stand still for it.
TEST(Watch, NamesAStoppedProcessBeforeTheRanksThatWaitForIt) {
  Watch watch(30);
  (void)watch.answered(0, answer("well"));
  (void)watch.answered(10, answer("silent"));
  (void)watch.answered(20, answer("silent"));
  EXPECT_EQ(standing(watch).find("critical process-unresponsive 2"), 0U) << standing(watch);
}

TEST(Watch, OfOldTextNamesRanksThatStandStill) {
  Watch watch(30);
  for (int i = 0; i < 4; ++i) (void)watch.answered(i * 10, answer("one-far-behind", 0, "2.24.3 verbose"));
  EXPECT_EQ(standing(watch), "critical rank-behind 1");
}

TEST(Watch, KeepsWhatLogsSayUntilTheySayOtherwise) {
  Watch watch(30);
  const Finding gpu{.cause = "gpu-hardware", .verdict = "a GPU failed"};
  const Finding slow{.cause = "slow", .severity = Severity::notice, .verdict = "slow"};
  EXPECT_EQ(watch.read("logs", {gpu, slow}), Lines{"critical: a GPU failed [gpu-hardware]"});
  EXPECT_EQ(watch.read("logs", {gpu}), Lines{});
  EXPECT_EQ(watch.findings().size(), 1U);
  EXPECT_EQ(watch.read("logs", {}), Lines{"over: a GPU failed [gpu-hardware]"});
}

TEST(Watch, HasFiguresForPrometheus) {
  Watch watch(30);
  EXPECT_NE(figures_of(watch).find("\nweft_watch_up 0\n"), std::string::npos);
  (void)watch.answered(0, answer("dead"));
  const std::string figures = figures_of(watch);
  EXPECT_NE(figures.find("\nweft_watch_up 1\n"), std::string::npos);
  EXPECT_NE(figures.find("weft_watch_findings{cause=\"process-dead\",severity=\"critical\"} 1\n"),
            std::string::npos);
  EXPECT_NE(figures.find(
                "weft_operation_number{rank=\"3\",communicator=\"fa93daea854b060b\",lane=\"device\"} 681\n"),
            std::string::npos)
      << figures;
  (void)watch.missed("gone");
  EXPECT_EQ(figures_of(watch).find("weft_operation_number"), std::string::npos);
}

}  // namespace
}  // namespace weft::report
