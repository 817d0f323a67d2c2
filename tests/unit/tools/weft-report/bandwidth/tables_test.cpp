// Tables of nccl-tests of all versions, as they stand in logs: what is printed is read back.

#include <gtest/gtest.h>

#include "unit/tools/weft-report/bandwidth/printers.hpp"
#include "weft-report/bandwidth/table_reader.hpp"
#include "weft-report/nccl/nccl.hpp"

namespace weft::report::bandwidth {
namespace {

using weft::test::Draw;

std::vector<Table> tables_of(const std::vector<std::string>& lines) {
  std::vector<Table> tables;
  TableReader reader(tables);
  int number = 0;
  for (const std::string& line : lines) reader.take("log", ++number, line);
  return tables;
}

void expect_same(const std::optional<Measured>& is, const std::optional<Measured>& was,
                 const std::string& line) {
  ASSERT_EQ(is.has_value(), was.has_value()) << line;
  if (!is) return;
  EXPECT_NEAR(is->microseconds, was->microseconds, 1e-9 * was->microseconds) << line;
  EXPECT_EQ(is->algbw, was->algbw) << line;
  EXPECT_EQ(is->busbw, was->busbw) << line;
  // A count of more than six digits is printed with six.
  EXPECT_NEAR(static_cast<double>(is->wrong), static_cast<double>(was->wrong), 1) << line;
}

TEST(BandwidthTables, OfEveryVersionAreReadBack) {
  Draw draw(1);
  for (const test::Format& format : test::formats) {
    const auto columns = columns_of(test::heading_of(format).substr(1));
    ASSERT_TRUE(columns) << format.heading;
    for (int i = 0; i < 500; ++i) {
      const Row row = test::random_row(format, draw);
      const std::string tag = draw.one_of<const char*>({"", "3: ", "[1,0]<stdout>:", "(pid=77) "});
      const std::string line = tag + test::row_text(format, row, draw);
      const auto read = row_of(line, *columns);
      ASSERT_TRUE(read) << line;
      EXPECT_EQ(read->bytes, row.bytes) << line;
      EXPECT_EQ(read->dtype, row.dtype) << line;
      EXPECT_EQ(read->redop, row.redop) << line;
      EXPECT_EQ(read->root, row.root) << line;
      expect_same(read->out_of_place, row.out_of_place, line);
      expect_same(read->in_place, row.in_place, line);
    }
  }
}

TEST(BandwidthTables, RowsThatWereCutAreLeftOut) {
  Draw draw(2);
  const test::Format& format = test::formats[0];
  Row row = test::random_row(format, draw);
  row.out_of_place = test::random_measured(format, draw);
  const std::string line = test::row_text(format, row, draw);
  const std::size_t last_word = line.find_last_of(' ');
  for (std::size_t length = 0; length <= last_word; ++length)
    EXPECT_FALSE(row_of(line.substr(0, length), usual_columns())) << line.substr(0, length);
}

TEST(BandwidthTables, NumbersThatNoneAreMakeNoRow) {
  const std::string head = "        1024           256     float     sum      -1";
  const std::string good = "    12.34    1.00    1.75       0";
  ASSERT_TRUE(row_of(head + good + good, usual_columns()));
  for (const char* bad : {"      nan    1.00    1.75       0", "    12.34     inf    1.75       0",
                          "   -12.34    1.00    1.75       0", "     0.00    1.00    1.75       0",
                          "    12.34    1.00   1e400       0", "    12.34    1.00    1.75      -1",
                          "    1e300    1.00    1.75       0", "    12.34    1.00    1.75      xx"})
    EXPECT_FALSE(row_of(head + good + bad, usual_columns())) << bad;
  for (const char* bad : {"       -1024           256     float     sum      -1",
                          "99999999999999999999   256   float   sum   -1",
                          "        1024           256     float     sum      -2",
                          "        1024           x56     float     sum      -1",
                          "        1024           256       4.5     sum      -1"})
    EXPECT_FALSE(row_of(bad + good + good, usual_columns())) << bad;
}

const std::vector<std::string> whole_run{
    "mpirun -np 16 ./build/all_reduce_perf -b 8 -e 8G -f 2",
    "# nccl-tests version 2.17.6 nccl-headers=22805 nccl-library=22805",
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20 agg iters: "
    "1 "
    "validation: 1 graph: 0",
    "#",
    "# Using devices",
    "#  Rank  0 Group  0 Pid    501 on      node1 device  0 [0000:18:00] NVIDIA H100 80GB HBM3",
    "#  Rank  1 Group  0 Pid    502 on      node2 device  0 [0000:18:00] NVIDIA H100 80GB HBM3",
    "#",
    "#                                                              out-of-place                       "
    "in-place",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw  "
    " busbw  "
    "#wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
    "(GB/s)",
    "           8             2     float     sum      -1    24.05    0.00    0.00       0    24.11    0.00  "
    "  0.00  "
    "     0",
    "node1:501:601 [0] NCCL INFO Connected all rings",
    "  1073741824     268435456     float     sum      -1    23940   44.85   44.85       0    23951   44.83  "
    " 44.83  "
    "     0",
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 22.4",
    "#"};

TEST(BandwidthTables, SayWhatTheLinesAroundThemSay) {
  const std::vector<Table> tables = tables_of(whole_run);
  ASSERT_EQ(tables.size(), 1U);
  const Table& table = tables[0];
  EXPECT_EQ(table.op, "all_reduce");
  EXPECT_EQ(table.version, "2.17.6");
  EXPECT_EQ(table.ranks, 2);
  EXPECT_EQ(table.hosts, (std::set<std::string>{"node1", "node2"}));
  EXPECT_EQ(table.device, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(table.out_of_bounds, 0);
  EXPECT_EQ(table.average_busbw, 22.4);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[1].line, 14);
  EXPECT_EQ(table.largest()->bytes, 1073741824);
}

TEST(BandwidthTables, OfSeveralPrintersAreToldApartByTheirTags) {
  std::vector<std::string> mixed;
  for (const std::string& line : whole_run) {
    for (const char* tag : {"[1,0]<stdout>:", "[1,1]<stdout>:"}) mixed.push_back(tag + line);
  }
  const std::vector<Table> tables = tables_of(mixed);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].rows.size(), 2U);
  EXPECT_EQ(tables[1].rows.size(), 2U);
  EXPECT_EQ(tables[1].average_busbw, 22.4);
}

TEST(BandwidthTables, OneAfterTheOtherAreSeveral) {
  std::vector<std::string> twice = whole_run;
  twice.insert(twice.end(), whole_run.begin(), whole_run.end());
  const std::vector<Table> tables = tables_of(twice);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].ranks, 2);
  EXPECT_EQ(tables[1].rows.size(), 2U);
}

TEST(BandwidthTables, WithoutAHeadingAreReadIfTypesAreThoseOfNcclTests) {
  EXPECT_EQ(tables_of({whole_run[13]}).size(), 1U);
  std::string other = whole_run[13];
  other.replace(other.find("float"), 5, "wombt");
  EXPECT_TRUE(tables_of({other}).empty());
}

TEST(BandwidthTables, GiveAwayTheirOperation) {
  const auto op_of = [](const char* redop, const char* root, const char* busbw, int ranks) {
    std::vector<std::string> lines{"# Using devices"};
    for (int i = 0; i < ranks; ++i)
      lines.push_back(test::print("#  Rank %2d Group  0 Pid 1 on a device %d [0x18] GPU", i, i));
    lines.push_back(whole_run[9]);
    lines.push_back(
        test::print("     1048576        262144     float  %6s  %6s    10.00  100.00  %6s       0    "
                    "10.00  100.00  %6s       0",
                    redop, root, busbw, busbw));
    const std::vector<Table> tables = tables_of(lines);
    return tables.empty() ? "no table" : tables[0].op;
  };
  EXPECT_EQ(op_of("sum", "-1", "175.00", 8), "all_reduce");
  EXPECT_EQ(op_of("sum", "-1", "87.50", 8), "reduce_scatter");
  EXPECT_EQ(op_of("sum", "0", "100.00", 8), "reduce");
  EXPECT_EQ(op_of("none", "0", "100.00", 8), "broadcast");
  EXPECT_EQ(op_of("none", "-1", "87.50", 8), "");  // all_gather and alltoall have one factor
  EXPECT_EQ(op_of("sum", "-1", "120.00", 8), "");
}

TEST(BandwidthTables, AreBounded) {
  std::vector<std::string> lines(whole_run.begin(), whole_run.begin() + 11);
  lines.insert(lines.end(), 2000, whole_run[13]);
  std::vector<Table> tables = tables_of(lines);
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].rows.size(), Table::most_rows);
  EXPECT_EQ(tables[0].left_out, 2000 - static_cast<std::int64_t>(Table::most_rows));
  lines.clear();
  for (int i = 0; i < 400; ++i) lines.insert(lines.end(), whole_run.begin(), whole_run.end());
  EXPECT_EQ(tables_of(lines).size(), TableReader::most_tables);
}

TEST(BandwidthTables, HoldRowsThatNcclsLinesInterrupt) {
  const std::string row = whole_run[13];
  for (const std::size_t cut : {row.find("-1") + 2, row.find(" 0 ") + 2}) {
    std::string content = whole_run[9] + "\n" + row.substr(0, cut) +
                          "node1:501:601 [0] NCCL INFO NCCL_PROTO set by environment to Simple\n" +
                          "node2:502:602 [0] NCCL INFO Connected all rings\n" + row.substr(cut) + "\n" + row +
                          "\n";
    nccl::JobLog log;
    log.add(content, "log");
    ASSERT_EQ(log.job().tables.size(), 1U);
    ASSERT_EQ(log.job().tables[0].rows.size(), 2U) << cut;
    EXPECT_EQ(log.job().tables[0].rows[0].in_place->microseconds, 23951);
    EXPECT_TRUE(log.job().hosts().contains("node1"));
    EXPECT_FALSE(log.job().hosts().contains("-1node1")) << "the number before it is no part of a host";
    EXPECT_NE(log.job().setting("NCCL_PROTO"), nullptr);
  }
}

TEST(BandwidthTables, AreNotSoughtInBlankLines) {
  std::vector<Table> tables;
  TableReader reader(tables);
  for (const char* line : {"", " ", "  ", "   :", "  1 2:", "  1 2 -1:", "  1  2  x  -1"}) {
    EXPECT_EQ(reader.behind_row(line), line);
    EXPECT_FALSE(reader.take("log", 1, line));
  }
}

TEST(BandwidthTables, StandInTheJob) {
  std::string content;
  for (const std::string& line : whole_run) content += line + "\r\n";
  nccl::JobLog log;
  log.add(content, "log");
  ASSERT_EQ(log.job().tables.size(), 1U);
  EXPECT_EQ(log.job().tables[0].rows.size(), 2U);
  EXPECT_EQ(log.job().later_ranks, 1);  // lines of ranks still state their own facts
  EXPECT_EQ(log.job().first_ranks.size(), 1U);
}

}  // namespace
}  // namespace weft::report::bandwidth
