// What a watch says of ranks of weft that it asks again and again, in seconds that the test chooses.

#include "weft-report/watch/ranks.hpp"

#include <gtest/gtest.h>

#include "weft-report/watch/watch.hpp"
#include "weft/core/error.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

/// A training of some ranks, which do a step a second until one does not.
struct Training {
  int size = 4;
  double time = 0;
  std::vector<double> operations = std::vector<double>(4, 0.0);
  std::vector<double> waiting = std::vector<double>(4, 0.0);
  std::vector<double> late = std::vector<double>(4, 0.0);
  std::vector<std::string> silent = std::vector<std::string>(4);  // why
  double accounted = 0;

  /// Each rank but `stuck` issues one more and ends it; with one, the others issue the operation that it does not, and wait.
  void second(int stuck = -1, int slow = -1, double share = 0) {
    time += 1;
    accounted += 1;
    if (slow >= 0) late[static_cast<std::size_t>(slow)] += share;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (stuck < 0) {
        operations[i] += 1;
        waiting[i] = 0;
      } else if (static_cast<int>(i) != stuck) {
        if (waiting[i] == 0) operations[i] += 1;
        waiting[i] += 1;
      }
    }
  }

  std::vector<RankLook> looks() const {
    std::vector<RankLook> all;
    for (int i = 0; i < size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      RankLook look{.address = text("localhost:", 9400 + i)};
      if (silent[at].empty()) {
        look.figures = RankFigures{.rank = i,
                                   .size = size,
                                   .operations = {{"world, host", operations[at]}},
                                   .oldest = waiting[at],
                                   .steps = operations[at],
                                   .late = late[at],
                                   .accounted = accounted};
      } else {
        look.why = silent[at];
        look.refused = silent[at] == "refused";
      }
      all.push_back(look);
    }
    return all;
  }
};

std::string said(const std::vector<ras::RasFinding>& found) {
  std::string all;
  for (const ras::RasFinding& one : found) {
    all += text(all.empty() ? "" : "; ", name(one.finding.severity), ' ', one.finding.cause);
    for (const int rank : one.ranks) all += text(' ', rank);
  }
  return all;
}

std::string look(RanksWatch& watch, const Training& training) {
  return said(watch.looked(training.time, training.looks()));
}

TEST(RanksWatch, SaysNothingOfATrainingThatGoesOn) {
  RanksWatch watch(30);
  Training training;
  for (int i = 0; i < 200; ++i) {
    training.second(-1, i % 4, 0.9);  // each is late in turn
    EXPECT_EQ(look(watch, training), "") << i;
  }
}

TEST(RanksWatch, NamesARankThatStandsStillAfterItsPatienceAndNotBefore) {
  RanksWatch watch(30);
  Training training;
  for (int i = 0; i < 10; ++i) training.second();
  EXPECT_EQ(look(watch, training), "");
  for (int i = 0; i < 29; ++i) {
    training.second(2);
    EXPECT_EQ(look(watch, training), "") << i;
  }
  training.second(2);
  EXPECT_EQ(look(watch, training), "critical rank-behind 2");
  EXPECT_NE(
      watch.looked(training.time, training.looks())[0].finding.verdict.find("ranks 0, 1, 3 have waited 30 s"),
      std::string::npos);
  training.second();
  EXPECT_EQ(look(watch, training), "");
}

TEST(RanksWatch, NamesARankThatGivesNoAnswerOnlyWhileOthersWait) {
  for (const std::string why : {"no answer within 5 s", "refused"}) {
    RanksWatch watch(30);
    Training training;
    training.second();
    (void)look(watch, training);
    training.silent[1] = why;
    for (int i = 0; i < 100; ++i) {
      training.second();
      EXPECT_EQ(look(watch, training), "") << "nobody waits for it";
    }
    for (int i = 0; i < 30; ++i) training.second(1);
    EXPECT_EQ(look(watch, training),
              why == "refused" ? "critical process-dead 1" : "critical process-unresponsive 1");
    training.silent.assign(4, why);  // the job is over: what stood stands
    EXPECT_NE(look(watch, training), "");
    EXPECT_EQ(watch.misses(), 1);
  }
}

/// Ranks 0 and 3 wait for 1 in the world, which waits for 2 in a communicator of their own.
TEST(RanksWatch, FollowsTheWaitsToTheRankThatDoesNotWait) {
  RanksWatch watch(30);
  const auto looks = [](double waited) {
    std::vector<RankLook> all;
    for (int rank = 0; rank < 4; ++rank) {
      RankFigures one{.rank = rank,
                      .size = 4,
                      .operations = {{"world, host", rank == 1 || rank == 2 ? 7.0 : 8.0}},
                      .oldest = waited};
      if (rank == 1) one.operations["world/1:0, host"] = 3;
      if (rank == 2) one.operations["world/1:0, host"] = 2;
      if (rank == 2) one.oldest = 0;
      all.push_back({.address = text("localhost:", 9400 + rank), .figures = one});
    }
    return all;
  };
  (void)watch.looked(0, looks(0));
  EXPECT_EQ(said(watch.looked(31, looks(31))), "critical rank-behind 2");
}

TEST(RanksWatch, NamesNobodyWhereAllHaveIssuedTheSame) {
  RanksWatch watch(30);
  Training training;
  (void)look(watch, training);
  training.time = 31;
  training.waiting.assign(4, 31);
  EXPECT_EQ(look(watch, training), "critical no-progress");
}

TEST(RanksWatch, NamesASlowRankAndNotTwoThatAreLateInTurn) {
  RanksWatch watch(30);
  Training training;
  std::string before;
  for (int i = 0; i < 30; ++i) {
    before = look(watch, training);
    training.second(-1, 3, 0.6);
  }
  EXPECT_EQ(before, "");
  EXPECT_EQ(look(watch, training), "warning rank-late 3");
  for (int i = 0; i < 40; ++i) training.second(-1, i % 2 == 0 ? 3 : 1, 0.9);
  (void)look(watch, training);
  for (int i = 0; i < 31; ++i) {
    training.second(-1, i % 2 == 0 ? 3 : 1, 0.9);
    EXPECT_EQ(i < 30 ? "" : look(watch, training), "");
  }
}

TEST(RanksWatch, NamesARankThatIsLateByLittleOnlyIfItLasts) {
  RanksWatch watch(30);
  Training training;
  (void)look(watch, training);
  for (int i = 0; i < 200; ++i) {
    training.second(-1, 2, 0.09);
    training.late[1] += 0.015;
    EXPECT_EQ(look(watch, training), i < 119 ? "" : "warning rank-late 2") << i;
  }
  for (int i = 0; i < 200; ++i) {
    training.second(-1, 2, 0.09);
    training.late[1] += 0.03;
    (void)look(watch, training);
  }
  EXPECT_EQ(look(watch, training), "") << "another is late a third as much";
  for (int i = 0; i < 200; ++i) {
    training.second(-1, 2, 0.04);
    EXPECT_EQ(look(watch, training), "") << i;
  }
}

// A stretch has two accounts or more, however long steps are.
TEST(RanksWatch, NamesASlowRankWhoseAccountsComeMoreSeldomThanItsPatience) {
  RanksWatch watch(30);
  Training training;
  Training seen = training;
  (void)look(watch, training);
  for (int i = 1; i <= 200; ++i) {
    training.second(-1, 3, 0.6);
    seen.time = training.time;
    seen.operations = training.operations;
    if (i % 64 == 0) seen = training;
    EXPECT_EQ(look(watch, seen), i < 128 ? "" : "warning rank-late 3") << i;
  }
}

TEST(RanksWatch, TakesOnePauseForNoSlowRank) {
  RanksWatch watch(30);
  Training training;
  for (int i = 0; i < 100; ++i) {
    training.second(-1, 1, i == 40 ? 29 : 0);
    if (i == 40) training.accounted += 29;
    EXPECT_EQ(look(watch, training), "") << i;
  }
}

TEST(RanksWatch, ReadsWhatARankServes) {
  const RankFigures one = parse_figures(
      "# HELP weft_info 1\n# TYPE weft_info gauge\n"
      "weft_info{rank=\"3\",version=\"0.1.0\",backend=\"host \\\"x\\\\n\\n\",size=\"8\"} 1\r\n"
      "weft_operation_number{rank=\"3\",communicator=\"world\",lane=\"host\"} 1.7e3\n"
      "weft_operation_number{rank=\"3\",communicator=\"world/1:0\",lane=\"group\"} 5 1700000000\n"
      "weft_oldest_operation_seconds{rank=\"3\"} 2.5\nweft_steps_total{rank=\"3\"} 12\nother_metric 3\n"
      "weft_late_seconds_total{rank=\"3\"} 4\nweft_accounted_seconds_total{rank=\"3\"} 9\nweft_cut{rank=\"3",
      "x");
  EXPECT_EQ(one.rank, 3);
  EXPECT_EQ(one.size, 8);
  EXPECT_EQ(one.operations, (std::map<std::string, double>{{"world, host", 1700}, {"world/1:0, group", 5}}));
  EXPECT_EQ(one.oldest, 2.5);
  EXPECT_EQ(one.steps, 12);
  EXPECT_EQ(one.late, 4);
  EXPECT_EQ(one.accounted, 9);
}

TEST(RanksWatch, RefusesWhatNoRankServes) {
  for (const std::string other :
       {"", "node_load1 3\n", "weft_info{rank=\"x\",size=\"2\"} 1\n", "weft_info{rank=\"2\",size=\"2\"} 1\n",
        "weft_info{rank=\"0\",size=\"2\" 1\n", "weft_info{rank=\"0\\",
        "weft_info{rank=\"0\",size=\"2\"} nan\n"}) {
    EXPECT_THROW((void)parse_figures(other, "localhost:9400"), Error) << other;
  }
}

TEST(Watch, PrintsWhatChangesAboutRanks) {
  Watch watch(30);
  Training training;
  training.silent.assign(4, "refused");
  EXPECT_EQ(watch.looked(0, training.looks()).size(), 1U);
  EXPECT_FALSE(watch.is_up());
  training.silent.assign(4, "");
  EXPECT_EQ(watch.looked(1, training.looks()), std::vector<std::string>{"all 4 ranks of weft answer"});
  EXPECT_TRUE(watch.is_up());
  for (int i = 0; i < 31; ++i) training.second(2);
  EXPECT_EQ(watch.looked(40, training.looks()).size(), 1U);
  EXPECT_EQ(watch.findings().size(), 1U);
  for (int i = 0; i < 5; ++i) training.second(2);
  EXPECT_EQ(watch.looked(45, training.looks()).size(), 0U) << "it is the same one";
  training.second();
  const auto over = watch.looked(46, training.looks());
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].find("over: rank 2"), 0U);
}

}  // namespace
}  // namespace weft::report
