// JSON of nccl-tests and of weft-bench: what is printed is read back, and what is broken is named.

#include "weft-report/bandwidth/results_json.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "unit/tools/weft-report/bandwidth/printers.hpp"
#include "weft-report/nccl/nccl.hpp"

namespace weft::report::bandwidth {
namespace {

using weft::test::Draw;

std::string half_json(const char* key, const char* time, const std::optional<Measured>& one) {
  if (!one) return test::print("\"%s\":null", key);
  return test::print("\"%s\":{\"%s\":%lf,\"alg_bw\":%lf,\"bus_bw\":%lf,\"nwrong\":", key, time,
                     one->microseconds, one->algbw, one->busbw) +
         (one->wrong < 0 ? "null" : test::print("%lf", static_cast<double>(one->wrong))) + "}";
}

/// As nccl-tests writes it: everything on one line, truth as text.
std::string tests_json(const std::vector<Row>& rows, const char* time, int processes) {
  std::string page =
      "{\"version\":3,\"start_time\":\"2026-03-01 "
      "10:00:00\",\"args\":[\"./build/all_reduce_perf\",\"-b\",\"8\"],"
      "\"env\":[\"PATH=\\/"
      "bin\"],\"nccl_version\":22809,\"config\":{\"nthreads\":1,\"ngpus\":2,\"minimum_bytes\":8,"
      "\"blocking_collectives\":\"false\",\"devices\":[";
  for (int i = 0; i < processes; ++i)
    page += test::print(
        "%s{\"rank\":%d,\"group\":0,\"pid\":7,\"hostname\":\"node%d\",\"device\":0,\"device_hex\":"
        "\"0000:18:00\",\"device_info\":\"NVIDIA H100 80GB HBM3\"}",
        i == 0 ? "" : ",", 2 * i, i / 2);
  page += "]},\"results\":[";
  for (const Row& row : rows) {
    if (page.back() != '[') page += ",";
    page += test::print("{\"size\":%lld,\"count\":%lld,\"type\":\"%s\",\"redop\":\"%s\",\"root\":\"%6lld\",",
                        static_cast<long long>(row.bytes), static_cast<long long>(row.bytes / 4),
                        row.dtype.c_str(), row.redop.empty() ? "none" : row.redop.c_str(),
                        static_cast<long long>(row.root)) +
            half_json("out_of_place", time, row.out_of_place) + "," +
            half_json("in_place", time, row.in_place) + ",\"actual_iterations\":20,\"experiment_name\":\"\"}";
  }
  return page +
         "],\"out_of_bounds\":{\"count\":0,\"okay\":\"true\"},\"average_bus_bandwidth\":{\"bandwidth\":22."
         "500000,"
         "\"okay\":\"false\"},\"errors\":[],\"end_time\":\"2026-03-01 10:01:00\"}";
}

TEST(BandwidthJson, OfNcclTestsIsReadBack) {
  Draw draw(3);
  for (int i = 0; i < 50; ++i) {
    std::vector<Row> rows;
    for (int j = 1 + draw.below(20); j > 0; --j) rows.push_back(test::random_row(test::formats[0], draw));
    const std::string content = tests_json(rows, draw.one_of<const char*>({"time", "cpu_time"}), 4);
    ASSERT_TRUE(opens_results(content));
    const std::vector<Table> tables = read_results(content, "r.json");
    ASSERT_EQ(tables.size(), 1U);
    const Table& table = tables[0];
    EXPECT_EQ(table.op, "all_reduce");
    EXPECT_EQ(table.version, "NCCL 2.28.9");
    EXPECT_EQ(table.ranks, 8);
    EXPECT_EQ(table.hosts.size(), 2U);
    EXPECT_EQ(table.average_verdict, "FAILED");
    EXPECT_EQ(table.average_busbw, 22.5);
    ASSERT_EQ(table.rows.size(), rows.size());
    for (std::size_t j = 0; j < rows.size(); ++j) {
      const Row& is = table.rows[j];
      EXPECT_EQ(is.bytes, rows[j].bytes);
      EXPECT_EQ(is.redop, rows[j].redop);
      EXPECT_EQ(is.root, rows[j].root);
      ASSERT_EQ(is.out_of_place.has_value(), rows[j].out_of_place.has_value());
      EXPECT_NEAR(is.in_place->microseconds, rows[j].in_place->microseconds, 1e-5);
      EXPECT_NEAR(is.in_place->algbw, rows[j].in_place->algbw, 1e-5);
      EXPECT_NEAR(is.in_place->busbw, rows[j].in_place->busbw, 1e-5);
      EXPECT_EQ(is.in_place->wrong, rows[j].in_place->wrong);
    }
  }
}

std::string bench_json(const std::string& members) {
  return R"({"results": [{"op": "all_reduce", "bytes": 1024, "dtype": "f32", "redop": "sum", "root": -1, "ranks": 4,)"
         R"( "in_place": false, "seconds": {"median": 1e-5, "p99": 2e-5}, "algbw": 0.1, "busbw": 0.15, "wrong": 0},)"
         R"( {"op": "all_reduce", "bytes": 1024, "dtype": "f32", "redop": "sum", "root": -1, "ranks": 4, "in_place":)"
         R"( true, )" +
         members + "}]}";
}

TEST(BandwidthJson, OfWeftBenchIsReadBack) {
  const std::vector<Table> tables = read_results(
      bench_json(R"("seconds": {"median": 2e-5, "p99": 2e-5}, "algbw": 0.05, "busbw": 0.075, "wrong": 0)"),
      "b.json");
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].op, "all_reduce");
  EXPECT_EQ(tables[0].ranks, 4);
  EXPECT_FALSE(tables[0].on_gpus());
  ASSERT_EQ(tables[0].rows.size(), 1U);
  EXPECT_NEAR(tables[0].rows[0].out_of_place->microseconds, 10, 1e-9);
  EXPECT_NEAR(tables[0].rows[0].in_place->microseconds, 20, 1e-9);
}

TEST(BandwidthJson, ThatIsBrokenIsNamedWithItsPlace) {
  const auto refused = [](const std::string& members) {
    try {
      read_results(bench_json(members), "b.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  const std::string seconds = R"("seconds": {"median": 1e-5}, )";
  EXPECT_NE(refused(R"("seconds": {"median": -1}, "algbw": 1, "busbw": 1, "wrong": 0)")
                .find("results[1].seconds.median"),
            std::string::npos);
  EXPECT_NE(refused(seconds + R"("algbw": 1e999, "busbw": 1, "wrong": 0)").find("results[1].algbw"),
            std::string::npos);
  EXPECT_NE(refused(seconds + R"("algbw": "fast", "busbw": 1, "wrong": 0)").find("results[1].algbw"),
            std::string::npos);
  EXPECT_NE(refused(seconds + R"("algbw": 1e300, "busbw": 1, "wrong": 0)").find("results[1].algbw is 1e+300"),
            std::string::npos);
  EXPECT_NE(refused(seconds + R"("busbw": 1, "wrong": 0)").find("algbw"), std::string::npos);
  EXPECT_NE(refused(seconds + R"("algbw": 1, "busbw": 1, "wrong": -7)").find("results[1].wrong"),
            std::string::npos);
  Draw draw(4);
  std::string content = tests_json({test::random_row(test::formats[0], draw)}, "time", 2);
  for (std::size_t length = 1; length < content.size(); length += 7)
    EXPECT_THROW(read_results(content.substr(0, length), "r.json"), Error) << length;
  content.replace(content.find("\"size\":"), 7, "\"size\":-");
  EXPECT_THROW(read_results(content, "r.json"), Error);
}

TEST(BandwidthJson, MeasurementsCalledNanAreLeftOut) {
  Draw draw(5);
  Row row = test::random_row(test::formats[0], draw);
  row.out_of_place = row.in_place;
  std::string content = tests_json({row}, "time", 2);
  const std::size_t at = content.find("\"alg_bw\":") + 9;
  content.replace(at, content.find(',', at) - at, "\"nan\"");
  const std::vector<Table> tables = read_results(content, "r.json");
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_FALSE(tables[0].rows[0].out_of_place);
  EXPECT_TRUE(tables[0].rows[0].in_place);
}

TEST(BandwidthJson, IsADocumentOfTheJob) {
  Draw draw(6);
  nccl::JobLog log;
  EXPECT_EQ(log.add(tests_json({test::random_row(test::formats[0], draw)}, "time", 2), "r.json"), "");
  EXPECT_EQ(log.job().documents.tables.size(), 1U);
}

}  // namespace
}  // namespace weft::report::bandwidth
