#include "weft/pipeline/grid.hpp"

#include <gtest/gtest.h>

#include "unit/pipeline/simulate/slow_simulation.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace {

/// A prediction by the slow simulation instead of simulate().
Prediction times_of(const Schedule& schedule, const Problem& problem) {
  const SlowFigures slow = SlowSimulation(schedule, problem).run();
  Prediction prediction{
      .makespan = slow.makespan, .span = slow.span, .devices = {}, .begins = slow.begins, .ends = slow.ends};
  return prediction;
}

Problem units(int devices, int chunks, int microbatches) {
  return {.devices = devices,
          .microbatches = microbatches,
          .costs = uniform_costs(devices, chunks, {chunks, chunks, chunks, chunks, chunks})};
}

TEST(Grid, ShowsTimeToTheRight) {
  const Problem problem = units(2, 1, 2);
  const Schedule schedule = one_f_one_b(problem);
  EXPECT_EQ(grid(schedule, times_of(schedule, problem)),
            "device 0 |F0 F1 ......B0    ...B1    \n"
            "device 1 |...F0 B0    F1 B1    ......\n"
            "0 to 9 ns, 1 ns in 3 columns\n");
}

TEST(Grid, TellsTheSecondChunkBySmallLetters) {
  const Problem problem = units(2, 2, 1);
  const Schedule schedule = v_min(problem);
  EXPECT_EQ(grid(schedule, times_of(schedule, problem)),
            "device 0 |F0 ......f0 i0 w0 ...I0 W0 \n"
            "device 1 |...F0 f0 ......i0 I0 w0 W0 \n"
            "0 to 9 ns, 1 ns in 3 columns\n");
}

TEST(Grid, ShowsWhatOverlapsAsOne) {
  const Schedule schedule =
      parse_schedule("schedule x\nmicrobatches 2\nplacement 0\ndevice 0: 0F0 (0F1;0B0)OVERLAP_F_B 0B1\n");
  const Problem problem = units(1, 1, 2);
  EXPECT_EQ(grid(schedule, times_of(schedule, problem)),
            "device 0 |F0   F1B0           B1        \n"
            "0 to 6 ns, 1 ns in 5 columns\n");
}

TEST(Grid, FitsIntoItsWidth) {
  const Problem problem = units(4, 1, 12);
  const Schedule schedule = zb_h1(problem);
  for (const int width : {40, 60, 100, 200, 4000}) {
    const std::string shown = grid(schedule, times_of(schedule, problem), {.width = width});
    for (std::size_t at = 0; at < shown.size();) {
      const std::size_t end = shown.find('\n', at);
      EXPECT_LE(end - at, static_cast<std::size_t>(width)) << shown;
      at = end + 1;
    }
  }
  EXPECT_THROW(grid(schedule, {.width = 39}), Error);
}

TEST(Grid, MarksAFaultWhereItIs) {
  const Schedule schedule =
      parse_schedule("schedule x\nmicrobatches 1\nplacement 0 1\ndevice 0: 0F0 0B0\ndevice 1: 1B0 1F0\n");
  const Fault fault{.what = "1B0 runs before 1F0", .device = 1, .entry = 0};
  EXPECT_EQ(grid(schedule, {.fault = &fault}),
            "device 0 |0F0 0B0 \n"
            "device 1 |1B0 1F0 \n"
            "          ^^^ 1B0 runs before 1F0\n"
            "entries 0 to 1 of 2\n");
  const Fault whole{.what = "stage 2 computes nothing"};
  EXPECT_TRUE(grid(schedule, {.fault = &whole}).ends_with("stage 2 computes nothing\n"));
}

TEST(Grid, MarksAFaultInTime) {
  const Problem problem = units(2, 1, 1);
  const Schedule schedule = one_f_one_b(problem);
  const Fault fault{.what = "too much memory", .device = 1, .entry = 1};
  EXPECT_EQ(grid(schedule, times_of(schedule, problem), {.fault = &fault}),
            "device 0 |F0 .........B0    \n"
            "device 1 |...F0 B0    ......\n"
            "                ^^^^^^ too much memory\n"
            "0 to 6 ns, 1 ns in 3 columns\n");
}

TEST(Grid, ShowsTheEntriesAroundAFault) {
  const Schedule schedule = one_f_one_b(units(2, 1, 100));
  const Fault fault{.what = "this one", .device = 0, .entry = 150};
  const std::string shown = grid(schedule, {.width = 40, .fault = &fault});
  EXPECT_EQ(shown,
            "device 0 |0F74 0B73 0F75 0B74 0F76 0B75 \n"
            "                         ^^^^ this one\n"
            "device 1 |1B73 1F74 1B74 1F75 1B75 1F76 \n"
            "entries 147 to 152 of 200\n")
      << shown;
}

TEST(Grid, RefusesAPredictionOfAnotherSchedule) {
  EXPECT_THROW(grid(one_f_one_b(units(2, 1, 1)), Prediction{}), Error);
}

}  // namespace
}  // namespace weft::pipeline
