#include <gtest/gtest.h>

#include <sstream>

#include "weft/core/error.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {
namespace {

constexpr std::string_view overlapping =
    "schedule two in one\n"
    "microbatches 8\n"
    "placement 0 1 1 0\n"
    "device 0: 0UNSHARD 0F0 0SEND_F0 0WAIT_SEND_F0 (0F7;3B3)OVERLAP_F_B 3I4 3W4 0RESHARD\n"
    "device 1: 1RECV_F0 1WAIT_RECV_F0 1F0 1OFFLOAD0 1LOAD0 1WAIT_LOAD0 1RECOMPUTE0 2B0 2REDUCE_GRAD\n";

std::string printed(const Schedule& schedule) {
  std::ostringstream out;
  out << schedule;
  return std::move(out).str();
}

TEST(ScheduleText, ReadsBackWhatItPrints) {
  const Schedule schedule = parse_schedule(overlapping);
  EXPECT_EQ(schedule.name, "two in one");
  EXPECT_EQ(schedule.microbatches, 8);
  EXPECT_EQ(schedule.device_of, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(schedule.rows[0].size(), 9u);
  EXPECT_TRUE(schedule.rows[0][4].overlaps_next);
  EXPECT_FALSE(schedule.rows[0][5].overlaps_next);
  EXPECT_EQ(schedule.rows[1][1], awaited({ActionType::receive_forward, 1, 0}));
  EXPECT_EQ(printed(schedule), overlapping);
  EXPECT_EQ(parse_schedule(printed(schedule)), schedule);
}

TEST(ScheduleText, ReadsWhatOtherSystemsEndLinesWith) {
  EXPECT_EQ(parse_schedule("schedule x\r\nmicrobatches 1\r\nplacement 0\r\ndevice 0: 0F0 0B0\r\n"),
            parse_schedule("schedule x\nmicrobatches 1\nplacement 0\ndevice 0: 0F0  0B0"));
}

TEST(ScheduleText, PrintsANameOnOneLineAndARowWithoutEntries) {
  const Schedule schedule{.name = "a\nb", .microbatches = 1, .device_of = {0}, .rows = {{}, {}}};
  EXPECT_EQ(printed(schedule), "schedule a\\nb\nmicrobatches 1\nplacement 0\ndevice 0:\ndevice 1:\n");
  EXPECT_EQ(parse_schedule(printed(schedule)), schedule);
}

struct Malformed {
  std::string_view text, says;
};

TEST(ScheduleText, NamesLineAndColumnOfWhatItCannotRead) {
  const std::string_view head = "schedule x\nmicrobatches 1\nplacement 0\n";
  const Malformed cases[] = {
      {"schedules x\n", "line 1, column 1 of a schedule: 'schedules', where 'schedule' was expected"},
      {"schedule x\nmicrobatches one\n", "line 2, column 14 of a schedule: 'one', where how many"},
      {"schedule x\nmicrobatches 1x\n", "line 2, column 15 of a schedule: 'x', where a blank was"},
      {"schedule x\nmicrobatches 1 2\n", "line 2, column 16 of a schedule: '2', where the end of the line"},
      {"schedule x\nmicrobatches 99999999999\n", "line 2, column 14"},
      {"schedule x\nmicrobatches\n", "line 2, column 13 of a schedule: the end of the line, where how many"},
      {"schedule x\nmicrobatches 1\nplacement 0 -1\n", "line 3, column 13 of a schedule: '-1', where a dev"},
      {"schedule x\nmicrobatches 1\n", "line 3, column 1 of a schedule: the end of the line, where 'placeme"},
      {"device 1: 0F0", "line 4, column 8 of a schedule: '1:', where '0:' was expected"},
      {"device 0: 0F0 F0", "line 4, column 15 of a schedule: 'F0', where a stage's number"},
      {"device 0: 0F", "line 4, column 13 of a schedule: the end of the line, where a microbatch's"},
      {"device 0: 0BW0", "line 4, column 12 of a schedule: 'BW0', where an action such as"},
      {"device 0: 0f0", "line 4, column 12 of a schedule: 'f0', where an action such as"},
      {"device 0: 0F0x", "line 4, column 14 of a schedule: 'x', where nothing more was expected"},
      {"device 0: 0UNSHARD0", "line 4, column 19 of a schedule: '0', where nothing more"},
      {"device 0: 0WAIT_F0", "line 4, column 12 of a schedule: 'WAIT_F0', where an action"},
      {"device 0: (0F0)OVERLAP_F_B", "line 4, column 15 of a schedule: ')OVERLAP_F_B', where ';' and"},
      {"device 0: (0F0;0B0)OVERLAP", "line 4, column 19 of a schedule: ')OVERLAP', where )OVERLAP_F_B"},
      {"device 0: (0F0;)OVERLAP_F_B", "line 4, column 16 of a schedule: ')OVERLAP_F_B', where a stage's"},
      {"device 0: 0F99999999999", "line 4, column 13 of a schedule: '99999999999', where a microbatch's"}};
  for (const auto& [text, says] : cases) {
    const std::string whole = (text.starts_with("device") ? std::string(head) : "") + std::string(text);
    try {
      parse_schedule(whole);
      ADD_FAILURE() << whole;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos)
          << error.what() << "\nand not: " << says;
    }
  }
}

}  // namespace
}  // namespace weft::pipeline
