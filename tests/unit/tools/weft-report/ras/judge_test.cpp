// Who hangs: the verdict on each state that NCCL's own code prints, in each version and form; on two answers; on answers that people published.

#include "weft-report/ras/judge.hpp"

#include <gtest/gtest.h>

#include <array>
#include <regex>

#include "unit/tools/weft-report/ras/recorded_answers.hpp"
#include "weft-report/ras/counts.hpp"

namespace weft::report::ras {
namespace {

using test::recorded_answer;
using test::recorded_answers;

/// "critical process-dead 1,6": severity, cause and the guilty ranks of each finding.
std::string verdicts(const std::vector<RasFinding>& findings) {
  std::string all;
  for (const RasFinding& one : findings) {
    std::string ranks;
    for (const int rank : one.ranks) ranks += (ranks.empty() ? " " : ",") + std::to_string(rank);
    all +=
        (all.empty() ? "" : "; ") + std::string(name(one.finding.severity)) + ' ' + one.finding.cause + ranks;
  }
  return all;
}

using Expected = std::map<std::string, std::string>;

const std::string all_but_12_and_13 =
    "notice rank-behind 0,1,2,3,4,5,6,7,8,9,10,11,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31";
const std::string upper_half = " 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31";

/// Of JSON, which names every rank.
Expected expected_of_json() {
  return {
      {"well", "notice no-progress"},
      {"one-behind-by-one", "notice rank-behind 3"},
      {"two-ahead-by-one", all_but_12_and_13},
      {"one-far-behind", "warning rank-behind 1"},
      {"two-far-behind", "warning rank-behind 4,7"},
      {"many-counts", "warning rank-behind 9"},
      {"never-launched", "warning rank-behind 2"},
      {"two-never-launched", "warning rank-behind 0,3"},
      {"other-operation", "critical rank-behind 1"},
      {"silent", "critical process-unresponsive 2; warning communicator-incomplete 2"},
      {"dead", "critical process-dead 2; warning communicator-incomplete 2"},
      {"dead-and-silent",
       "critical process-dead 1,6; critical process-unresponsive 2; warning communicator-incomplete 1,2,6"},
      {"many-silent",
       "critical process-unresponsive" + upper_half + "; warning communicator-incomplete" + upper_half},
      {"silent-and-behind",
       "critical process-unresponsive 0; warning communicator-incomplete 0; warning rank-behind 3"},
      {"silent-and-left",
       "critical process-unresponsive 0; warning communicator-incomplete 0; warning communicator-incomplete "
       "3"},
      {"left", "warning communicator-incomplete 2"},
      {"two-left", "warning communicator-incomplete 2,3"},
      {"starting", "notice no-progress"},
      {"one-starting", "warning rank-behind 1"},
      {"aborted", "critical communicator-error 3"},
      {"all-aborted", "critical communicator-error 0,1,2,3"},
      {"ending", "notice no-progress"},
      {"one-ends", "notice communicator-incomplete 0"},
      {"initialization-error", "critical communicator-error 1"},
      {"errors", "critical communicator-error 3"},
      {"all-errors", "critical communicator-error 1,2,3,4,5"},
      {"remote-errors", "critical communicator-error 0,1,2,3"},
      {"time-outs", "notice process-unresponsive"},
      {"three-communicators", "warning rank-behind 2"},
      {"uneven-nodes", "notice no-progress"},
      {"uneven-gpus", "notice no-progress"},
      {"no-communicator", "notice communicator-incomplete"},
      {"nobody-knows-it", "warning rank-behind 3"},
      {"visible-devices", "warning rank-behind 3"},
      {"everything",
       "critical process-dead 6; critical process-unresponsive 1; critical communicator-error 0; "
       "critical communicator-error 3; warning communicator-incomplete 1,6; warning communicator-incomplete "
       "2; "
       "warning rank-behind 4"},
  };
}

/// STATUS VERBOSE names all ranks but those of the largest group, and none of a communicator on whose ranks it is the same.
Expected expected_of_verbose() {
  Expected expected = expected_of_json();
  expected["two-never-launched"] = "warning rank-behind";  // two of four: it names neither
  expected["all-aborted"] = "critical communicator-error";
  return expected;
}

/// STATUS names no group of more than ten.
Expected expected_of_text() {
  Expected expected = expected_of_verbose();
  expected["many-silent"] = "critical process-unresponsive; warning communicator-incomplete";
  return expected;
}

/// 2.24 and 2.25 have one count for all collectives; of a process that is missing they do not say which rank it is, and of a rank that is
/// missing not whether its process is.
Expected as_in_2_24(Expected expected, bool verbose) {
  expected["other-operation"] = "notice no-progress";
  expected["silent-and-left"] = "critical process-unresponsive 0; warning communicator-incomplete 0,3";
  std::string& everything = expected["everything"];
  everything.replace(
      everything.find("incomplete 1,6; warning communicator-incomplete 2"), 49,
      std::string("incomplete 1,2,6; warning communicator-incomplete") + (verbose ? " 1,2,6" : ""));
  for (auto& [state, verdict] : expected)
    verdict = std::regex_replace(verdict, std::regex("(process-dead|process-unresponsive) [0-9,]+"), "$1");
  return expected;
}

TEST(RasJudge, NamesTheGuiltyInEveryVersionFormAndState) {
  for (const auto& [version, states] : recorded_answers()) {
    const bool old = version.starts_with("2.24") || version.starts_with("2.25");
    Expected expected = version.ends_with("json")      ? expected_of_json()
                        : version.ends_with("verbose") ? expected_of_verbose()
                                                       : expected_of_text();
    if (old) expected = as_in_2_24(std::move(expected), version.ends_with("verbose"));
    for (const auto& [state, bytes] : states) {
      const std::string got = verdicts(judge(parse_answer(bytes, "answer")));
      EXPECT_EQ(got, expected.at(state)) << version << ' ' << state;
    }
  }
}

TEST(RasJudge, FindingsHaveEvidenceAndSayWhatToDo) {
  for (const auto& [version, states] : recorded_answers()) {
    for (const auto& [state, bytes] : states) {
      for (const RasFinding& one : judge(parse_answer(bytes, "answer"))) {
        EXPECT_FALSE(one.finding.evidence.empty()) << version << ' ' << state;
        EXPECT_FALSE(one.finding.fix.empty()) << version << ' ' << state;
      }
    }
  }
}

/// Two answers: those whose counts stand still are stuck, others are slow.
struct Twice {
  Answer before;
  Answer now;
  std::string verdicts() const { return ras::verdicts(judge(now, {.before = &before, .seconds = 10})); }
};

void add_to_all(Answer& answer, std::uint64_t more, std::set<int> but = {}) {
  for (Communicator& communicator : answer.communicators) {
    for (Collective& collective : communicator.collectives) {
      for (Launched& level : collective.levels) {
        const bool stays =
            std::ranges::any_of(level.who.named, [&](const Member& one) { return but.contains(one.rank); });
        if (!stays) level.operations += more;
      }
    }
  }
}

Twice twice(const std::string& form, const std::string& state) {
  const Answer answer = parse_answer(recorded_answer(form, state), "answer");
  return {answer, answer};
}

TEST(RasJudge, RankThatStandsStillBetweenTwoAnswersIsStuck) {
  for (const std::string form : {"2.24.3 verbose", "2.26.2 text", "2.29.2 json"}) {
    Twice both = twice(form, "one-behind-by-one");
    EXPECT_EQ(both.verdicts(), "critical rank-behind 3") << form;
    both = twice(form, "one-far-behind");
    add_to_all(both.now, 1, {1});
    EXPECT_EQ(both.verdicts(), "critical rank-behind 1") << form;
  }
}

TEST(RasJudge, RankThatMovesBetweenTwoAnswersIsSlow) {
  for (const std::string form : {"2.24.3 verbose", "2.26.2 text", "2.29.2 json"}) {
    Twice both = twice(form, "one-far-behind");
    add_to_all(both.now, 5);
    EXPECT_EQ(both.verdicts(), "notice rank-behind 1") << form;
  }
}

/// Of two ranks that are behind, one catches up.
TEST(RasJudge, OfRanksThatAreBehindTheStuckAreNamed) {
  Twice both = twice("2.29.2 json", "two-far-behind");
  for (Collective& one : both.now.communicators[0].collectives) {
    if (one.type != "AllReduce") continue;
    const std::vector<Member> both_ranks = one.levels.front().who.named;
    one.levels.push_back({.operations = 13, .who = {.size = 1, .named = {both_ranks[1]}}});
    one.levels.front().who = {.size = 1, .named = {both_ranks[0]}};
  }
  EXPECT_EQ(both.verdicts(), "critical rank-behind 4");
}

TEST(RasJudge, JobInWhichNobodyLaunchesAnythingMakesNoProgress) {
  Twice both = twice("2.29.2 json", "well");
  EXPECT_EQ(both.verdicts(), "warning no-progress");
  add_to_all(both.now, 1);
  EXPECT_EQ(both.verdicts(), "");
  // A text has no counts of ranks that are alike.
  EXPECT_EQ(twice("2.26.2 text", "well").verdicts(), "notice no-progress");
}

TEST(RasJudge, RankThatIsStillOutsideACommunicatorIsCritical) {
  EXPECT_EQ(twice("2.26.2 text", "left").verdicts(), "critical communicator-incomplete 2");
  EXPECT_EQ(twice("2.29.2 json", "one-starting").verdicts(), "critical rank-behind 1");
  EXPECT_EQ(twice("2.29.2 json", "starting").verdicts(), "warning no-progress");
}

/// Published as NVIDIA/nccl issue 1911: NCCL names the two that are ahead, of which nobody needs to know.
TEST(RasJudge, NamesTheThirtyThatAreBehindAndNotTheTwoAhead) {
  const Answer answer = parse_answer(R"(NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  30 ranks have launched up to operation 640
  2 ranks have launched up to operation 641
  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124
  Rank 13 -- GPU 5 managed by process 323033 on node 10.137.190.124)",
                                     "1911");
  EXPECT_TRUE(answer.unread.empty());
  EXPECT_EQ(verdicts(judge(answer)), all_but_12_and_13);
  std::string stuck = all_but_12_and_13;
  stuck.replace(0, 6, "critical");
  EXPECT_EQ(verdicts(judge(answer, {.before = &answer, .seconds = 10})), stuck);
}

const std::string well_of_256 = R"(NCCL version 2.26.2 compiled with CUDA 12.4
CUDA runtime version 12040, driver version 12040

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
     32          8            1        256      256

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1        32         8       256       256   RUNNING      OK

Errors
======

Warnings
========
)";

/// Published as NVIDIA/nccl issue 1730: RAS is content, PyTorch is not.
TEST(RasJudge, SaysThatRasDoesNotSeeANetworkThatStandsStill) {
  const auto alone = judge(parse_answer(well_of_256, "1730"));
  EXPECT_EQ(verdicts(alone), "notice no-progress");
  EXPECT_NE(alone[0].finding.verdict.find("a network or a device that stands still"), std::string::npos);
  EXPECT_NE(next_question(alone, parse_answer(well_of_256, "1730"), false).find("flight record"),
            std::string::npos);
  const auto found = judge(parse_answer(
      well_of_256 +
          "\n[rank118]:[E603 17:48:01.005271823 ProcessGroupNCCL.cpp:632] [Rank 118] Watchdog caught "
          "collective operation timeout: WorkNCCL(SeqNum=2398459, OpType=ALLREDUCE) ran for 1800068 "
          "milliseconds before timing out.\n",
      "1730"));
  EXPECT_EQ(verdicts(found), "critical no-progress");
  EXPECT_EQ(found[0].finding.evidence[0].line, 24);
}

/// Published as NVIDIA/nccl issue 1762: a defect of 2.27.3, whose numbers cannot be.
TEST(RasJudge, TakesNumbersThatCannotBe) {
  const Answer answer = parse_answer(R"(NCCL version 2.27.3 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12040

Job summary
===========

  Nodes  Processes         GPUs
          per node  per process
      1          8            1
      1          2            1

  Nodes  Processes         GPUs
(total)    (total)      (total)
      2         10           10

The outlier node:
  Node 10.4.109.13 running processes 60004,60035

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         1         2         1   RUNNING  INCOMPLETE
    2         4         0         0         0         0    NOCOMM  INCOMPLETE,MISMATCH

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 60004 on node 10.4.109.13 managing GPU 0

#0-0 (b3398875b8b2a063) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 1 -- GPU 0 managed by process 60004 on node 10.4.109.13

#2-0 (93d7000200000001) INCOMPLETE
  Missing communicator data from 255 ranks
  Rank 1057455228 -- GPU -1 (NVML 3) managed by process 60004 on node 10.4.109.13

Warnings
========

)",
                                     "1762");
  EXPECT_TRUE(answer.unread.empty());
  const auto findings = judge(answer);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].finding.cause, "process-unresponsive");
  ASSERT_EQ(findings[0].processes.size(), 1U);
  EXPECT_EQ(findings[0].processes[0].pid, 60004);
  EXPECT_EQ(findings[0].ranks, std::vector<int>{1});
}

/// Who is behind stands below the largest gap, and not only who is the very last.
TEST(RasCounts, NameAllThatAreBelowTheLargestGap) {
  Collective all{.type = "AllReduce"};
  for (const auto& [rank, operations] : std::map<int, std::uint64_t>{{0, 640}, {1, 99}, {2, 641}, {3, 100}})
    all.levels.push_back({.operations = operations, .who = {.size = 1, .named = {{rank, {}}}}});
  const auto found = behind_in({.name = "x", .size = 4, .collectives = {all}}, "x");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks, (std::vector<int>{1, 3}));
  EXPECT_EQ(found->gap, 540U);
}

/// Against a slow twin: of every pair of ranks whose counts cannot be of one sequence, one at least is named; and nobody is named if all are alike.
TEST(RasCounts, NameSomeoneOfEveryPairThatCannotBeOneSequence) {
  for (unsigned seed = 0; seed < 729; ++seed) {
    Communicator one{.name = "x", .size = 3, .collectives = {{.type = "AllGather"}, {.type = "AllReduce"}}};
    unsigned rest = seed;
    std::array<std::array<std::uint64_t, 2>, 3> counts{};
    for (int rank = 0; rank < 3; ++rank) {
      for (std::size_t type = 0; type < 2; ++type, rest /= 3) {
        counts[static_cast<std::size_t>(rank)][type] = rest % 3;
        one.collectives[type].levels.push_back(
            {.operations = rest % 3, .who = {.size = 1, .named = {{rank, {}}}}});
      }
    }
    const auto found = behind_in(one, "x");
    const bool alike = counts[0] == counts[1] && counts[1] == counts[2];
    ASSERT_EQ(found.has_value(), !alike) << seed;
    if (!found) continue;
    EXPECT_FALSE(found->ranks.empty()) << seed;
    bool diverged = false;
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b < a; ++b) {
        const auto& x = counts[static_cast<std::size_t>(a)];
        const auto& y = counts[static_cast<std::size_t>(b)];
        if ((x[0] <= y[0] && x[1] <= y[1]) || (y[0] <= x[0] && y[1] <= x[1])) continue;
        diverged = true;
        EXPECT_TRUE(std::ranges::count(found->ranks, a) + std::ranges::count(found->ranks, b) > 0) << seed;
      }
    }
    EXPECT_EQ(found->other_operations, diverged) << seed;
  }
}

}  // namespace
}  // namespace weft::report::ras
