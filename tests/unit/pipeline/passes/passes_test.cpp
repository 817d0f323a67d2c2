#include "weft/pipeline/passes.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/schedule_rows.hpp"
#include "unit/pipeline/model/drawn_schedules.hpp"
#include "unit/pipeline/verify/oracle.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::pipeline {
namespace {

using enum ActionType;
using test::Case;
using test::Draw;

Schedule of_rows(std::vector<int> device_of, std::initializer_list<const char*> lines, int microbatches) {
  return {.name = "given",
          .microbatches = microbatches,
          .device_of = std::move(device_of),
          .rows = test::rows(lines)};
}
Schedule alone(const char* line, int microbatches = 1) {
  return of_rows({0}, {line}, microbatches);
}

TEST(WithCommunication, SendsAtOnceAndReceivesAheadInTheOrderOfTheOtherSide) {
  const Schedule plan = of_rows({0, 1}, {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"}, 3);
  EXPECT_EQ(with_communication(plan, {.ahead = 1}).rows,
            test::rows({"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0F2 0SEND_F2 "
                        "0RECV_B1 0WAIT_RECV_B0 0WAIT_SEND_F0 0B0 "
                        "0RECV_B2 0WAIT_RECV_B1 0WAIT_SEND_F1 0B1 0WAIT_RECV_B2 0WAIT_SEND_F2 0B2",
                        "1RECV_F0 1WAIT_RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1WAIT_RECV_F1 1F1 "
                        "1RECV_F2 1B1 1SEND_B1 1WAIT_RECV_F2 1F2 1B2 1SEND_B2 "
                        "1WAIT_SEND_B0 1WAIT_SEND_B1 1WAIT_SEND_B2"}));
}

TEST(WithCommunication, PostsAReceiveEarlierWhereTheOtherSideSendsItBeforeTheNext) {
  // 0F1 is sent second and needed first, so that 0F0 has to be received ahead of it.
  const Schedule plan = of_rows({0, 1}, {"0F0 0F1 0B1 0B0", "1F1 1B1 1F0 1B0"}, 2);
  EXPECT_EQ(with_communication(plan, {.ahead = 0}).rows[1],
            test::row("1RECV_F0 1RECV_F1 1WAIT_RECV_F1 1F1 1B1 1SEND_B1 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 "
                      "1WAIT_SEND_B1 1WAIT_SEND_B0"));
}

TEST(WithCommunication, SendsNothingWithinADeviceAndNothingBetweenAPair) {
  const Schedule plan =
      of_rows({0, 1, 1, 0}, {"0F0 3F0 3B0 0F1& 0B0 3F1 3B1 0B1", "1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1"}, 2);
  const Schedule with = with_communication(plan);
  EXPECT_EQ(with.rows[0],
            test::row("3RECV_F0 0F0 0SEND_F0 3WAIT_RECV_F0 0WAIT_SEND_F0 3F0 0RECV_B0 3B0 3SEND_B0 "
                      "3RECV_F1 0WAIT_RECV_B0 3WAIT_SEND_B0 0F1& 0B0 0SEND_F1 0RECV_B1 "
                      "3WAIT_RECV_F1 0WAIT_SEND_F1 3F1 3B1 3SEND_B1 0WAIT_RECV_B1 3WAIT_SEND_B1 "
                      "0B1"));
}

TEST(WithUnshards, GathersAheadAndKeepsWhatIsSoonUsedAgain) {
  const Schedule plan = of_rows({0, 0, 0}, {"0F0 1F0 2F0 2B0 1B0 0B0"}, 1);
  EXPECT_EQ(
      with_unshards(plan, {.ahead = 1, .kept = 0}).rows[0],
      test::row("0UNSHARD 1UNSHARD 0WAIT_UNSHARD 0F0 0RESHARD 2UNSHARD 1WAIT_UNSHARD 1F0 1RESHARD "
                "2WAIT_UNSHARD 2F0 "
                "1UNSHARD 2B0 2RESHARD 0UNSHARD 1WAIT_UNSHARD 1B0 1RESHARD 0WAIT_UNSHARD 0B0 0RESHARD"));
  EXPECT_EQ(with_unshards(plan, {.ahead = 1, .kept = 3, .stages = {1}}).rows[0],
            test::row("1UNSHARD 0F0 1WAIT_UNSHARD 1F0 2F0 2B0 1B0 1RESHARD 0B0"));
}

TEST(WithReductions, ReducesAStageAfterItsLastBackward) {
  EXPECT_EQ(with_reductions(of_rows({0, 0}, {"0F0 1F0 1B0 0I0 0F1& 0W0 1F1 1I1 0B1 1W1"}, 2)).rows[0],
            test::row("0F0 1F0 1B0 0I0 0F1& 0W0 1F1 1I1 0B1 0REDUCE_GRAD 1W1 1REDUCE_GRAD 0WAIT_REDUCE_GRAD "
                      "1WAIT_REDUCE_GRAD"));
}

TEST(WithRecompute, ComputesAnewRightBeforeTheBackward) {
  EXPECT_EQ(with_recompute(alone("0F0 0F1& 0B0 0I1 0W1", 2), {0}).rows[0],
            test::row("0F0 0RECOMPUTE0 0F1& 0B0 0RECOMPUTE1 0I1 0W1"));
}

TEST(WithOffload, MovesOutAndBackWhatRestsLongEnough) {
  const auto second = [](int, int microbatch) { return microbatch < 2; };
  EXPECT_EQ(with_offload(alone("0F0 0F1 0F2 0B2 0B1 0B0", 3), second).rows[0],
            test::row("0F0 0OFFLOAD0 0F1 0WAIT_OFFLOAD0 0F2 0B2 0LOAD0 0B1 0WAIT_LOAD0 0B0"));
  EXPECT_EQ(
      with_offload(alone("0F0 0F1 0F2 0B2 0B1 0B0", 3), second, {.behind = 0, .ahead = 0}).rows[0],
      test::row("0F0 0OFFLOAD0 0WAIT_OFFLOAD0 0F1 0OFFLOAD1 0WAIT_OFFLOAD1 0F2 0B2 0LOAD1 0WAIT_LOAD1 0B1 "
                "0LOAD0 0WAIT_LOAD0 0B0"));
}

TEST(Passes, RefuseWhatIsThereAlready) {
  const auto refuses = [](const char* part, auto&& pass) {
    test::expect_error(ErrorKind::usage, {part}, pass);
  };
  const auto all = [](int, int) { return true; };
  const Schedule plan = of_rows({0, 1}, {"0F0 0B0", "1F0 1B0"}, 1);
  refuses("device 0, entry 0 (0RECV_B0): is there before",
          [&] { with_communication(with_communication(plan)); });
  refuses("device 0, entry 0 (0UNSHARD)", [&] { with_unshards(with_unshards(plan)); });
  refuses("device 0, entry 2 (0REDUCE_GRAD)", [&] { with_reductions(with_reductions(plan)); });
  refuses("(0RECOMPUTE0)", [&] { with_recompute(with_recompute(plan, {0}), {0}); });
  const Schedule offloaded = with_offload(alone("0F0 0F1 0B1 0B0", 2), all, {.behind = 0, .ahead = 0});
  refuses("(0OFFLOAD0)", [&] { with_offload(offloaded, all); });
  refuses("recompute a stage once, and before", [&] { with_recompute(offloaded, {0}); });
  refuses("ahead is -1", [&] { with_communication(plan, {.ahead = -1}); });
  refuses("stage 2 of 2", [&] { with_unshards(plan, {.stages = {2}}); });
  refuses("the device has no such stage", [&] { with_reductions(alone("0F0 0B0 1F0")); });
  refuses("there are 1 microbatches", [&] { with_reductions(alone("0F0 0B0 0F1")); });
  refuses("stage 1 never uses microbatch 0", [&] {
    with_communication(of_rows({0, 1}, {"0F0 0B0", ""}, 1));
  });
}

/// The schedule without the entries that passes add.
Schedule stripped(Schedule schedule) {
  for (auto& row : schedule.rows)
    std::erase_if(row, [](const Action& action) { return !is_compute(action.type); });
  return schedule;
}

Schedule with_any(const Schedule& plan, Draw& draw) {
  Schedule result = plan;
  if (draw.once_in(3)) result = with_recompute(result, {draw.below(plan.stages())});
  if (draw.once_in(2)) {
    const int one_in = 1 + draw.below(3);
    result =
        with_offload(result, [&](int stage, int microbatch) { return (stage + microbatch) % one_in == 0; },
                     {.behind = draw.below(3), .ahead = draw.below(3)});
  }
  const bool last = draw.once_in(2);
  const CommunicationOptions communication{.ahead = draw.below(6)};
  if (!last) result = with_communication(result, communication);
  if (draw.once_in(2)) {
    UnshardOptions options{.ahead = draw.below(4), .kept = draw.below(6)};
    if (draw.once_in(2)) options.stages = {draw.below(plan.stages())};
    result = with_unshards(result, options);
  }
  if (draw.once_in(2)) result = with_reductions(result);
  if (last) result = with_communication(result, communication);
  return result;
}

std::string fault(const Schedule& schedule, const Problem& problem) {
  const auto found = find_fault(schedule, problem);
  return found ? found->what : "";
}

TEST(Passes, GiveWhatVerifyTakesAndKeepWhatTheyGot) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Draw draw(seed);
    Case one = draw_computation(
        draw, {.devices = 2 + draw.below(5), .chunks = 1 + draw.below(3), .microbatches = 1 + draw.below(9)});
    if (draw.once_in(2)) add_pairs(one, draw);
    if (!fault(one.schedule, one.problem).empty()) drop_pairs(one);
    const Schedule with = with_any(one.schedule, draw);
    ASSERT_EQ(fault(with, one.problem), "") << "seed " << seed << '\n' << one.described() << with;
    ASSERT_EQ(stripped(with), one.schedule) << "seed " << seed;
  }
}

TEST(Passes, GiveWhatTheOracleTakes) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Draw draw(seed);
    Case one = draw_computation(draw);
    if (draw.once_in(2)) add_pairs(one, draw);
    if (!test::broken_rule(one.schedule, one.problem).empty()) drop_pairs(one);
    const Schedule with = with_any(one.schedule, draw);
    ASSERT_EQ(test::broken_rule(with, one.problem), "") << "seed " << seed << '\n' << one.described() << with;
  }
}

TEST(Passes, GiveOneForwardOneBackwardItsTransfers) {
  constexpr int devices = 8, microbatches = 20;
  Schedule plan{.name = "1F1B",
                .microbatches = microbatches,
                .device_of = looped_placement(devices),
                .rows = std::vector<std::vector<Action>>(devices)};
  for (int device = 0; device < devices; ++device) {
    auto& row = plan.rows[static_cast<std::size_t>(device)];
    int forwards = 0;
    while (forwards < devices - device) row.push_back({forward, device, forwards++});
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      row.push_back({backward, device, microbatch});
      if (forwards < microbatches) row.push_back({forward, device, forwards++});
    }
  }
  Problem problem{
      .devices = devices, .microbatches = microbatches, .costs = uniform_costs(devices, 1, {1, 1, 1, 10, 4})};
  for (int device = 0; device < devices; ++device) problem.memory_limit.push_back(10 * (devices - device));
  const Schedule with = with_communication(with_reductions(with_unshards(plan)));
  EXPECT_EQ(fault(with, problem), "");
  EXPECT_EQ(stripped(with), plan);
}

}  // namespace
}  // namespace weft::pipeline
