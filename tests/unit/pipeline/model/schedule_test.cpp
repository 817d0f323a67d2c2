#include "weft/pipeline/schedule.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "weft/core/error.hpp"
#include "weft/pipeline/problem.hpp"

namespace weft::pipeline {
namespace {

Schedule small() {
  return {.name = "small",
          .microbatches = 1,
          .device_of = {0, 1},
          .rows = {{{ActionType::forward, 0, 0}, {ActionType::backward, 0, 0}},
                   {{ActionType::forward, 1, 0}, {ActionType::backward, 1, 0}}}};
}

TEST(Schedule, IsEqualByItsRowsAndNotByItsName) {
  Schedule other = small();
  other.name = "another";
  EXPECT_EQ(small(), other);
  EXPECT_EQ(small().hash(), other.hash());
}

TEST(Schedule, ItsHashTellsEveryMarkOfAnEntry) {
  const auto changed = [](auto change) {
    Schedule one = small();
    change(one.rows[1][1]);
    return one.hash();
  };
  const std::uint64_t hash = small().hash();
  EXPECT_NE(hash, changed([](Action& one) { one.type = ActionType::backward_input; }));
  EXPECT_NE(hash, changed([](Action& one) { one.stage = 0; }));
  EXPECT_NE(hash, changed([](Action& one) { one.microbatch = 1; }));
  EXPECT_NE(hash, changed([](Action& one) { one.awaits = true; }));
  EXPECT_NE(hash, changed([](Action& one) { one.overlaps_next = true; }));
}

TEST(Placement, LoopsOrTurnsBack) {
  EXPECT_EQ(looped_placement(3, 2), (std::vector<int>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(v_placement(3, 3), (std::vector<int>{0, 1, 2, 2, 1, 0, 0, 1, 2}));
}

TEST(Action, IsPrintedInPyTorchsWords) {
  std::ostringstream out;
  out << Action{ActionType::forward, 2, 0} << ' ' << awaited({ActionType::receive_backward, 3, 7}) << ' '
      << Action{ActionType::unshard, 1};
  EXPECT_EQ(out.str(), "2F0 3WAIT_RECV_B7 1UNSHARD");
}

TEST(Costs, PartsOfADeviceAddUpToIt) {
  const Costs costs =
      uniform_costs(2, 3, {.forward = 10, .backward_input = 11, .backward_weight = 12, .activation = 7});
  const Costs whole = joined({costs.stages, costs.hops}, 1);
  EXPECT_EQ(whole.stages[0],
            (StageCosts{.forward = 20, .backward_input = 22, .backward_weight = 24, .activation = 14}));
}

TEST(Problem, NamesTheStageAndTheValueThatCannotBe) {
  Problem problem{.devices = 2, .microbatches = 4, .costs = uniform_costs(2, 1, {1, 1, 1, 8, 0})};
  problem.costs.stages[1].backward_weight = -3;
  try {
    expect_valid(problem, looped_placement(2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "weft: stage 1: backward_weight (ns) is -3; give 1 or more");
  }
}

TEST(Problem, RefusesALimitBelowOneMicrobatch) {
  Problem problem{
      .devices = 2, .microbatches = 4, .costs = uniform_costs(2, 1, {1, 1, 1, 8, 0}), .memory_limit = {8, 7}};
  EXPECT_THROW(expect_valid(problem, looped_placement(2)), Error);
  problem.memory_limit[1] = 8;
  EXPECT_NO_THROW(expect_valid(problem, looped_placement(2)));
}

}  // namespace
}  // namespace weft::pipeline
