#include "weft/pipeline/simulate.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/schedule_rows.hpp"

namespace weft::pipeline {
namespace {

Problem two_devices(Hop hop = {}, int microbatches = 2) {
  return {
      .devices = 2,
      .microbatches = microbatches,
      .costs = uniform_costs(
          2, 1,
          {.forward = 10, .backward_input = 20, .backward_weight = 30, .activation = 4, .kept_for_weight = 1},
          hop)};
}

Schedule of(std::initializer_list<const char*> rows, std::vector<int> device_of, int microbatches = 2) {
  return {
      .name = "", .microbatches = microbatches, .device_of = std::move(device_of), .rows = test::rows(rows)};
}

TEST(Simulate, BeginsEverythingAsSoonAsItsInputsAreThere) {
  const Schedule plan = of({"0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1I0 1F1 1I1 1W0 1W1"}, {0, 1});
  const Prediction got = simulate(plan, two_devices({.latency = 5}), Keep::times);
  EXPECT_EQ(got.begins[0], (std::vector<Nanoseconds>{0, 10, 50, 80, 100, 130}));
  EXPECT_EQ(got.begins[1], (std::vector<Nanoseconds>{15, 25, 45, 55, 75, 105}));
  EXPECT_EQ(got.makespan, 160);
  EXPECT_EQ(got.span, 160);
  EXPECT_EQ(got.most_work(), 120);
  EXPECT_DOUBLE_EQ(got.bubble_makespan(), 0.25);
}

TEST(Simulate, SaysWhyADeviceIsIdleAndLeavesNothingOut) {
  const Schedule plan = of({"0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1I0 1F1 1I1 1W0 1W1"}, {0, 1});
  const Prediction got = simulate(plan, two_devices({.latency = 5}));
  const Idle& first = got.devices[0].idle;
  EXPECT_EQ(first.for_backward, 25 + 5);  // computed at 45, and 1I1 at 75 while this device is free from 70
  EXPECT_EQ(first.for_wire, 5 + 5);
  EXPECT_EQ(got.devices[1].idle.before_first, 15);
  for (const DevicePrediction& one : got.devices) EXPECT_EQ(one.idle.total() + one.work, got.makespan);
}

TEST(Simulate, CountsActivationsFromForwardToInputGradientAndTheRestToTheWeights) {
  const Schedule plan = of({"0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1B0 1F1 1I1 1W1"}, {0, 1});
  const Prediction got = simulate(plan, two_devices());
  EXPECT_EQ(got.devices[0].peak_memory, 8);
  EXPECT_EQ(got.devices[1].peak_memory, 4);
}

TEST(Simulate, MessagesOfOneDirectionTakeTurnsOnTheirWire) {
  const Schedule plan = of({"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"}, {0, 1});
  const Prediction got = simulate(plan, two_devices({.latency = 1, .occupancy = 25}), Keep::times);
  EXPECT_EQ(got.begins[1], (std::vector<Nanoseconds>{36, 61, 71, 121}));
}

TEST(Simulate, DevicesThatShareAWireAreServedInOrderOfTime) {
  Problem problem{
      .devices = 3, .microbatches = 1, .costs = uniform_costs(3, 1, {10, 20, 30, 0, 0}, {.occupancy = 100})};
  const Schedule plan = of({"0F0 0B0", "1F0 1B0", "2F0 2B0"}, {0, 1, 2}, 1);
  EXPECT_EQ(simulate(plan, problem).makespan, 3 * 60 + 4 * 100);
  // With wires of their own both hops are busy at once.
  problem.microbatches = 2;
  const Schedule two = of({"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1", "2F0 2F1 2B0 2B1"}, {0, 1, 2}, 2);
  const Nanoseconds own = simulate(two, problem).makespan;
  for (Hop& hop : problem.costs.hops) hop.wire_forward = hop.wire_backward = 0;
  const Prediction shared = simulate(two, problem, Keep::times);
  EXPECT_EQ(own, 780);
  EXPECT_EQ(shared.begins[2], (std::vector<Nanoseconds>{310, 410, 420, 470}));
}

TEST(Simulate, AMessageGoesWhenBothSidesHavePostedIt) {
  const Schedule plan = of({"0F0 0SEND_F0 0WAIT_SEND_F0 0RECV_B0 0WAIT_RECV_B0 0B0",
                            "1RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0"},
                           {0, 1}, 1);
  const Prediction got = simulate(plan, two_devices({.latency = 3, .occupancy = 4}, 1), Keep::times);
  EXPECT_EQ(got.ends[0], (std::vector<Nanoseconds>{10, 10, 14, 14, 84, 134}));
  EXPECT_EQ(got.ends[1], (std::vector<Nanoseconds>{0, 17, 27, 77, 77, 81}));
}

TEST(Simulate, GathersReductionsAndCopiesGoOnBesideAndInOrder) {
  Problem problem = two_devices({}, 1);
  problem.costs.stages[0].unshard = 7;
  problem.costs.stages[0].copy = 4;
  problem.costs.stages[1].reduce = 100;
  const Schedule plan =
      of({"0UNSHARD 0WAIT_UNSHARD 0F0 0OFFLOAD0 0WAIT_OFFLOAD0 0LOAD0 0WAIT_LOAD0 0B0 0RESHARD",
          "1F0 1B0 1REDUCE_GRAD 1WAIT_REDUCE_GRAD"},
         {0, 1}, 1);
  const Prediction got = simulate(plan, problem, Keep::times);
  EXPECT_EQ(got.ends[0], (std::vector<Nanoseconds>{0, 7, 17, 17, 21, 21, 25, 127, 127}));
  EXPECT_EQ(got.ends[1], (std::vector<Nanoseconds>{27, 77, 77, 177}));
  EXPECT_EQ(got.devices[0].idle.for_side, 8);
}

TEST(Simulate, WhatIsRecomputedIsHeldFromThenAndTakesAForwardMore) {
  const Schedule plan = of({"0F0 0F1 0RECOMPUTE0 0B0 0RECOMPUTE1 0B1", "1F0 1B0 1F1 1B1"}, {0, 1});
  const Prediction got = simulate(plan, two_devices());
  EXPECT_EQ(got.devices[0].peak_memory, 4);
  EXPECT_EQ(got.devices[0].work, 140);
  EXPECT_EQ(got.devices[0].idle.total() + got.devices[0].work, got.makespan);
}

TEST(Simulate, NamesWhoWaitsForEachOther) {
  test::expect_error(ErrorKind::usage, {"cannot be executed to its end: device 0 at entry 1 (0B0)"}, [] {
    simulate(of({"0F0 0B0", "1B0 1F0"}, {0, 1}, 1), two_devices({}, 1));
  });
}

}  // namespace
}  // namespace weft::pipeline
