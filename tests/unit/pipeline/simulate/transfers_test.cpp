#include "weft/pipeline/transfers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace {

Problem pipeline_of(int devices, int microbatches, const Hop& hop) {
  return {.devices = devices,
          .microbatches = microbatches,
          .costs = uniform_costs(devices, 1, {10, 10, 10, 1, 1, 4, 6, 3}, hop)};
}

std::vector<Transfer> moved(const Schedule& schedule, const Problem& problem) {
  return transfers(schedule, problem, simulate(schedule, problem, Keep::times));
}

/// "device 0: 0SEND_F0 10 to 15"
std::string told(const std::vector<Transfer>& all) {
  std::ostringstream out;
  for (const Transfer& one : all)
    out << "device " << one.device << ": " << one.action << ' ' << one.begin << " to " << one.end << '\n';
  return std::move(out).str();
}

TEST(Transfers, AreMessagesOfBothEnds) {
  const Problem problem = pipeline_of(2, 1, {.latency = 2, .occupancy = 3});
  const std::string messages =
      "device 0: 0SEND_F0 10 to 15\ndevice 1: 1RECV_F0 10 to 15\n"
      "device 0: 0RECV_B0 45 to 50\ndevice 1: 1SEND_B0 45 to 50\n";
  EXPECT_EQ(told(moved(one_f_one_b(problem), problem)), messages);
  EXPECT_EQ(told(moved(with_communication(one_f_one_b(problem)), problem)), messages);
}

TEST(Transfers, TakeTurnsOnAWire) {
  const Problem problem = pipeline_of(2, 2, {.latency = 0, .occupancy = 25});
  const auto all = moved(gpipe(problem), problem);
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(told({all[0], all[2]}), "device 0: 0SEND_F0 10 to 35\ndevice 0: 0SEND_F1 35 to 60\n");
}

TEST(Transfers, ArriveBeforeTheyAreUsed) {
  const Problem problem = pipeline_of(4, 9, {.latency = 4, .occupancy = 7});
  const Schedule schedule = with_communication(zb_h1(problem));
  const Prediction prediction = simulate(schedule, problem, Keep::times);
  const auto all = transfers(schedule, problem, prediction);
  EXPECT_EQ(all.size(), 2U * 2 * 3 * 9);
  for (const Transfer& one : all) {
    const auto device = static_cast<std::size_t>(one.device);
    const auto& row = schedule.rows[device];
    const auto time_of = [&](const Action& action) {
      const auto at = std::ranges::find(row, action) - row.begin();
      return prediction.ends[device].at(static_cast<std::size_t>(at));
    };
    EXPECT_LE(time_of(one.action), one.begin) << one.action;
    EXPECT_GE(time_of(awaited(one.action)),
              one.end - (stream_of(one.action.type) == ActionStream::wire_out ? 4 : 0));
  }
}

TEST(Transfers, AreGathersReductionsAndCopiesToo) {
  const Problem problem = pipeline_of(1, 6, {});
  Schedule schedule = with_offload(gpipe(problem), [](int, int microbatch) { return microbatch == 0; });
  schedule = with_reductions(with_unshards(schedule));
  const std::string all = told(moved(schedule, problem));
  EXPECT_NE(all.find("0UNSHARD 0 to 4\n"), std::string::npos) << all;
  EXPECT_NE(all.find("0OFFLOAD0 14 to 17\n"), std::string::npos) << all;
  EXPECT_NE(all.find("0REDUCE_GRAD "), std::string::npos) << all;
  EXPECT_NE(all.find("0LOAD0 "), std::string::npos) << all;
  EXPECT_EQ(all.find("RESHARD"), std::string::npos) << all;
}

TEST(Transfers, NeedTimes) {
  const Problem problem = pipeline_of(2, 2, {});
  const Schedule schedule = gpipe(problem);
  EXPECT_THROW(transfers(schedule, problem, simulate(schedule, problem)), Error);
  EXPECT_TRUE(moved(schedule, problem).empty());
}

}  // namespace
}  // namespace weft::pipeline
