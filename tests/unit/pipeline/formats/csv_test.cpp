#include "weft/pipeline/csv.hpp"

#include <gtest/gtest.h>

#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

constexpr std::string_view lowered =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0REDUCE_GRAD,0RESHARD\n"
    "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1\n";

TEST(Csv, ReadsSlotsInWhichNothingRuns) {
  const Schedule schedule = parse_csv("0F0,,,0B0\n,1F0,1B0\n", CsvFormat::compute_only);
  EXPECT_EQ(schedule.microbatches, 1);
  EXPECT_EQ(schedule.device_of, (std::vector<int>{0, 1}));
  EXPECT_EQ(to_csv(schedule, CsvFormat::compute_only), "0F0,0B0\n1F0,1B0\n");
}

TEST(Csv, FindsAnyPlacementInItsRows) {
  EXPECT_EQ(parse_csv("1F0,3F0\n2F0,0F0\n", CsvFormat::compute_only).device_of,
            (std::vector<int>{1, 0, 1, 0}));
}

TEST(Csv, GivesTheSameBytesWhereNoCellIsEmpty) {
  for (const std::string_view file :
       {"0F0,(0F1;3B0)OVERLAP_F_B,3F0\n1F0,2F0,(2F1;1B0)OVERLAP_F_B\n", "0F0,0I0,0W0,0F1,0B1\n"})
    EXPECT_EQ(to_csv(parse_csv(file, CsvFormat::compute_only), CsvFormat::compute_only), file);
  EXPECT_EQ(to_csv(parse_csv(lowered, CsvFormat::compute_comms), CsvFormat::compute_comms), lowered);
}

TEST(Csv, ReadsBackWhatItWrites) {
  const Schedule schedule = parse_csv(lowered, CsvFormat::compute_comms);
  EXPECT_EQ(parse_csv(to_csv(schedule, CsvFormat::compute_comms), CsvFormat::compute_comms), schedule);
}

TEST(Csv, TakesLinesOfPythonsWriterAndALastOneWithoutEnd) {
  const Schedule schedule = parse_csv("0F0,0B0\n1F0,1B0\n", CsvFormat::compute_only);
  EXPECT_EQ(parse_csv("0F0,0B0\r\n1F0,1B0\r\n", CsvFormat::compute_only), schedule);
  EXPECT_EQ(parse_csv("0F0,0B0\n1F0,1B0", CsvFormat::compute_only), schedule);
}

TEST(Csv, TellsTheDialectByItsWords) {
  const auto types = [](std::string_view file, Dialect dialect = Dialect::detect) {
    std::string result;
    const Schedule schedule = parse_csv(file, CsvFormat::compute_only, dialect);
    for (const Action& action : schedule.rows[0]) result += name(action.type);
    return result;
  };
  EXPECT_EQ(types("0F0,0B0,0W0,0F1,0BW1"), "FIWFB");
  EXPECT_EQ(types("0F0,0B0,0W0"), "FIW") << "B and W of one microbatch";
  EXPECT_EQ(types("0F0,0I0,0W0,0F1,0B1"), "FIWFB");
  EXPECT_EQ(types("0F0,0B0"), "FB");
  EXPECT_EQ(types("0F0,0B0", Dialect::before_october_2024), "FB") << "nothing is split";
  EXPECT_EQ(types("0F0,0B0,0F1,0W1", Dialect::before_october_2024), "FIFW");
  EXPECT_EQ(types("0F0,0B0,0F1,0W1", Dialect::current), "FBFW");
}

TEST(Csv, PutsActionsIntoTheSlotsOfTheirBegin) {
  const Schedule schedule = parse_csv("0F0,0F1,0B0\n1F0,1B0,1F1\n", CsvFormat::compute_only);
  EXPECT_EQ(to_csv(schedule, {{0, 10, 45}, {10, 22, 30}}, 10), "0F0,0F1,,,0B0\n,1F0,1B0,1F1\n");
  EXPECT_EQ(to_csv(schedule, {{0, 5, 9}, {0, 1, 70}}, 10), "0F0,0F1,0B0\n1F0,1B0,,,,,,1F1\n");
  EXPECT_EQ(parse_csv(to_csv(schedule, {{0, 10, 45}, {10, 22, 30}}, 10), CsvFormat::compute_only), schedule);
  EXPECT_THROW(to_csv(schedule, {{0, 10, 45}}, 10), Error);
  EXPECT_THROW(to_csv(schedule, {{0, 10}, {0, 0, 0}}, 10), Error);
  EXPECT_THROW(to_csv(schedule, {{0, 10, 45}, {10, 22, 30}}, 0), Error);
}

TEST(Csv, RefusesToWriteWhatItHasNoWordFor) {
  const auto says = [](const char* row, CsvFormat format) -> std::string {
    const std::string head = "schedule x\nmicrobatches 1\nplacement 0\ndevice 0: 0F0 ";
    try {
      to_csv(parse_schedule(head + row), format);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(says("0WAIT_RECV_F0", CsvFormat::compute_comms),
            "weft: device 0, entry 1: 0WAIT_RECV_F0 has no word in PyTorch's CSV; the format has no waits: "
            "leave them out, or export the schedule as text");
  EXPECT_EQ(says("0SEND_F0", CsvFormat::compute_only),
            "weft: device 0, entry 1: 0SEND_F0 is not a computation; export it as compute_comms");
  for (const char* one : {"0RECOMPUTE0", "0OFFLOAD0", "0LOAD0"})
    EXPECT_EQ(says(one, CsvFormat::compute_comms), text("weft: device 0, entry 1: ", one,
                                                        " has no word in PyTorch's CSV; export the schedule "
                                                        "as text"));
}

TEST(Csv, LeavesWaitsOutWhereAsked) {
  const Schedule schedule = parse_schedule(
      "schedule x\nmicrobatches 1\nplacement 0 1\ndevice 0: 0F0 0SEND_F0 0WAIT_SEND_F0\n"
      "device 1: 1RECV_F0 1WAIT_RECV_F0 1F0\n");
  EXPECT_EQ(to_csv(without_awaits(schedule), CsvFormat::compute_comms), "0F0,0SEND_F0\n1RECV_F0,1F0\n");
}

struct Refused {
  std::string_view file, says;
  CsvFormat format = CsvFormat::compute_only;
  Dialect dialect = Dialect::detect;
};

TEST(Csv, NamesRowAndColumnOfWhatItRefuses) {
  constexpr auto comms = CsvFormat::compute_comms;
  const Refused cases[] = {
      {"0F0,1F0xyz\n", "row 1, column 2 of a CSV: '1F0xyz': 'xyz', where nothing more was expected"},
      {"0F0\n1F0,,1X0\n", "row 2, column 3 of a CSV: '1X0': 'X0', where an action such as"},
      {"0F0, 0B0\n", "row 1, column 2 of a CSV: ' 0B0': ' 0B0', where a stage's number"},
      {"0F0,0B\n", "row 1, column 2 of a CSV: '0B': the end, where a microbatch's number"},
      {"2BW0\n", "row 1, column 1 of a CSV: '2BW0': 'BW0', where", {}, Dialect::current},
      {"0F0,0I0,0BW1\n", "row 1, column 2 of a CSV: '0I0': 'I0', where an action such as"},
      {"0F0,0I0,0F1,0B1,0W1\n",
       "row 1, column 5 of a CSV: 0W1 beside 0B1 in row 1, column 4 is of before October 2024, and 0I0 in "
       "row 1, column 2 is of after it"},
      {"0F0,0B0,0W0\n",
       "column 3 of a CSV: 0W0 beside 0B0 in row 1, column 2, which is the whole",
       {},
       Dialect::current},
      {"0F0,0I0\n", "row 1, column 2 of a CSV: '0I0': 'I0'", {}, Dialect::before_october_2024},
      {"0F0,0B0,0F1,0W1\n", "row 1, column 4 of a CSV: 0W1 has neither B nor I of its microbatch"},
      {"0F0,,0F0\n", "row 1, column 3 of a CSV: 0F0 is already in row 1, column 1"},
      {"0F0,0F1\n1F0,0B0\n", "row 2, column 2 of a CSV: 0B0, and stage 0 is in row 1 already"},
      {"0F0,0B0\n2F0\n", "stage 1 of 0 to 2 is in no row"},
      {"0F0,2000000000F0\n", "row 1, column 2 of a CSV: 2000000000F0 of a file with 2 actions"},
      {"0F0,0F2147483647\n", "row 1, column 2 of a CSV: 0F2147483647 of a file with 2 actions; number micro"},
      {"0F0\n\n1F0\n", "row 2, column 1 of a CSV: no action in this row"},
      {"", "row 1, column 1 of a CSV: the file is empty"},
      {"0F0,0SEND_F0\n", "row 1, column 2 of a CSV: 0SEND_F0 is not a computation; read it as compute_comms"},
      {"0F0,,0B0\n", "row 1, column 2 of a CSV: an empty cell", comms},
      {"0F0,0WAIT_SEND_F0\n", "row 1, column 2 of a CSV: 0WAIT_SEND_F0 is not an action of PyTorch's", comms},
      {"0F0,0RECOMPUTE0\n", "row 1, column 2 of a CSV: 0RECOMPUTE0 is not an action of PyTorch's", comms},
      {"0F0,0SEND_F0,0SEND_F0\n", "row 1, column 3 of a CSV: 0SEND_F0 is already in row 1, column 2", comms}};
  for (const Refused& one : cases) {
    try {
      parse_csv(one.file, one.format, one.dialect);
      ADD_FAILURE() << one.file;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find(one.says), std::string::npos)
          << error.what() << "\nand not: " << one.says;
    }
  }
}

}  // namespace
}  // namespace weft::pipeline
