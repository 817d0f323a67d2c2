// Lines of NCCL's Inspector in the formats of its versions: what is written is read back, and what is broken is named.

#include "weft-report/inspector/records.hpp"

#include <gtest/gtest.h>

#include "support/draw.hpp"
#include "unit/tools/weft-report/inspector/runs.hpp"
#include "weft-report/inspector/prometheus.hpp"

namespace weft::report::inspector {
namespace {

using test::each_line;
using test::files_of;
using test::MadeUp;
using weft::test::Draw;

FileRecords read(std::string_view content, std::uint32_t stride = 1) {
  Reader reader(stride);
  reader.take(content);
  return reader.finish();
}

// Of the README of 2.30.7 (plugins/profiler/inspector/README.md).
constexpr const char* of_readme = R"({
  "header": {
    "id": "0x7f8c496ae9f661",
    "rank": 2,
    "n_ranks": 8,
    "nnodes": 1
  },
  "metadata": {
    "inspector_output_format_version": "v4.0",
    "git_rev": "",
    "rec_mechanism": "profiler_plugin",
    "dump_timestamp_us": 1748030377748202,
    "hostname": "example-hostname",
    "pid": 1639453
  },
  "coll_perf": {
    "coll": "AllReduce",
    "coll_sn": 1407,
    "coll_msg_size_bytes": 17179869184,
    "coll_exec_time_us": 61974,
    "coll_algobw_gbs": 277.210914,
    "coll_busbw_gbs": 485.119099
  }
}
)";

TEST(InspectorRecords, TheReadmesExampleIsRead) {
  const FileRecords file = read(of_readme);
  EXPECT_EQ(file.bad_lines, 0);
  EXPECT_FALSE(file.cut);
  ASSERT_EQ(file.records.size(), 1U);
  ASSERT_EQ(file.members.size(), 1U);
  EXPECT_EQ(file.members[0].id, "0x7f8c496ae9f661");
  EXPECT_EQ(file.members[0].rank, 2);
  EXPECT_EQ(file.members[0].ranks, 8);
  EXPECT_EQ(file.members[0].host, "example-hostname");
  EXPECT_EQ(file.members[0].pid, 1639453);
  EXPECT_EQ(file.records[0].number, 1407U);
  EXPECT_EQ(file.records[0].when, 1748030377U);
  EXPECT_FLOAT_EQ(file.records[0].microseconds, 61974);
  EXPECT_EQ(file.sizes, (std::vector<std::uint64_t>{17179869184}));
  EXPECT_TRUE(file.records[0].kind == Kind::all_reduce);
}

TEST(InspectorRecords, SharedOperationsHaveTheWholeBuffersSize) {
  // The second example of that README: ReduceScatter of 2 GiB a rank on 8 ranks has an algbw of 418.4 GB/s in 41,057 us.
  const FileRecords file = read(
      R"({"header":{"id":"0xe6","rank":4,"n_ranks":8,"nnodes":1},"metadata":{"dump_timestamp_us":1752867229276385,"hostname":"h","pid":4},)"
      R"("coll_perf":{"coll":"ReduceScatter","coll_sn":1231,"coll_msg_size_bytes":2147483648,"coll_exec_time_us":41057,)"
      R"("coll_timing_source":"kernel_gpu","event_trace_ts":{"coll_start_ts":1752867228035059,"coll_stop_ts":1752867229235064}}})"
      "\n");
  ASSERT_EQ(file.records.size(), 1U);
  EXPECT_EQ(file.sizes[0], 8 * std::uint64_t{2147483648});
  EXPECT_NEAR(static_cast<double>(file.sizes[0]) / file.records[0].microseconds / 1000, 418.439467, 1e-4);
  EXPECT_EQ(file.records[0].when, 1752867228U) << "it began then";
  EXPECT_TRUE(file.records[0].by_gpu);
}

TEST(InspectorRecords, EveryKindOfObjectIsReadOrPassedOver) {
  const std::string header =
      R"({"header":{"id":"0x1","comm_name":"TP","rank":0,"n_ranks":2,"nnodes":1},"metadata":{"hostname":"h","pid":1},)";
  const FileRecords file = read(
      header +
      R"("p2p_perf":{"p2p":"Send","p2p_sn":3,"p2p_peer":1,"p2p_msg_size_bytes":4096,"p2p_exec_time_us":12,"p2p_timing_source":"kernel_cpu"}})" +
      "\n" + header + R"("coll_api":{"func":"AllReduce","start_ts":1,"stop_ts":2}})" + "\n" + header +
      R"("dump_stats":{"coll_dropped":3,"p2p_dropped":4}})" + "\n" + header +
      R"("dump_stats":{"coll_dropped":5,"p2p_dropped":4}})" + "\n\n" +
      R"({"id":"abc","rank":0,"n_ranks":8,"nnodes":1,"pid":12345,"hostname":"w","coll_perf":{"coll":"AllGatherV","coll_sn":1,)" +
      R"("coll_msg_size_bytes":1048576,"coll_exec_time_us":61974.5,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":"nan"}})" +
      "\n");
  EXPECT_EQ(file.bad_lines, 0) << file.problem;
  EXPECT_EQ(file.objects, 5U);
  EXPECT_EQ(file.lost, 9U) << "the file states sums";
  ASSERT_EQ(file.records.size(), 2U);
  EXPECT_TRUE(file.records[0].kind == Kind::send);
  EXPECT_FALSE(file.records[0].by_gpu);
  EXPECT_FLOAT_EQ(file.records[1].microseconds, 61974.5F);
  EXPECT_EQ(file.members[1].pid, 12345);
}

TEST(InspectorRecords, ALineOfEveryRankIsReadBack) {
  for (const bool names : {false, true}) {
    for (const bool pretty : {false, true}) {
      const MadeUp run{.ranks = 4, .per_node = 2, .steps = 5, .names = names, .pretty = pretty};
      const auto files = files_of(run);
      std::vector<FileRecords> all;
      for (const std::string& file : files) all.push_back(read(file));
      std::vector<std::size_t> next(files.size());
      each_line(run, [&](int rank, const char* op, int number, std::uint64_t, double time, double) {
        const FileRecords& file = all[static_cast<std::size_t>(rank)];
        ASSERT_LT(next[static_cast<std::size_t>(rank)], file.records.size()) << file.problem;
        const Record& record = file.records[next[static_cast<std::size_t>(rank)]++];
        EXPECT_TRUE(record.kind == kind_of(op));
        EXPECT_EQ(record.number, static_cast<std::uint32_t>(number));
        EXPECT_FLOAT_EQ(record.microseconds, static_cast<float>(time));
        EXPECT_EQ(file.members[0].name, names ? "DP Group 0" : "");
      });
      for (std::size_t i = 0; i < files.size(); ++i) EXPECT_EQ(next[i], all[i].records.size());
    }
  }
}

TEST(InspectorRecords, ChunksMayEndAnywhere) {
  const std::string content = files_of({.ranks = 1, .steps = 4})[0] + of_readme;
  const FileRecords whole = read(content);
  Draw draw(5);
  for (int trial = 0; trial < 100; ++trial) {
    Reader reader;
    for (std::size_t at = 0; at < content.size();) {
      const auto length = static_cast<std::size_t>(1 + draw.below(400));
      reader.take(std::string_view(content).substr(at, length));
      at += length;
    }
    const FileRecords file = reader.finish();
    ASSERT_EQ(file.records.size(), whole.records.size());
    EXPECT_EQ(file.bad_lines, 0);
  }
}

TEST(InspectorRecords, AFileThatIsBeingWrittenGivesWhatIsThere) {
  const std::string content = files_of({.ranks = 1, .steps = 2})[0];
  std::size_t complete = 0;
  for (std::size_t length = 0; length <= content.size(); ++length) {
    const FileRecords file = read(std::string_view(content).substr(0, length));
    const bool whole =
        length == 0 || content[length - 1] == '\n' || (length < content.size() && content[length] == '\n');
    if (length > 0 && (length == content.size() ? false : content[length] == '\n')) ++complete;
    EXPECT_EQ(file.bad_lines, 0) << "of " << length << " bytes: " << file.problem;
    EXPECT_EQ(file.cut, !whole) << length;
    EXPECT_EQ(file.records.size(), complete);
  }
}

TEST(InspectorRecords, BrokenLinesAreNamedAndCostThemselvesAlone) {
  const std::string good = test::object_of({.ranks = 8}, 3, "AllReduce", 7, 1024, 50, 0);
  const auto spoil = [&](std::string_view what, std::string_view with) {
    std::string line = good;
    line.replace(line.find(what), what.size(), with);
    return line;
  };
  struct Case {
    std::string line;
    const char* says;
  };
  const std::vector<Case> cases{
      {"hello\n", "is no JSON"},
      {"12\n", "is no object"},
      {spoil("\"rank\":3", "\"rank\":8"), "has no rank and n_ranks that go together"},
      {spoil("\"rank\":3", "\"rank\":-1"), "has no rank and n_ranks that go together"},
      {spoil("\"n_ranks\":8", "\"n_ranks\":1e99"), "has no rank and n_ranks"},
      {spoil("\"coll_exec_time_us\":50", "\"coll_exec_time_us\":-50"), "has a coll_perf without"},
      {spoil("\"coll_msg_size_bytes\":1024", "\"coll_msg_size_bytes\":1e40"), "has a coll_perf without"},
      {spoil("\"coll_sn\":7", "\"coll_sn\":\"7\""), "has a coll_perf without coll, coll_sn"},
      {good.substr(0, 100) + "\n", "is cut: the next line begins another object"},
      {"{\"a\":\"" + std::string(2 << 20, 'x') + "\"}\n", "is longer than 1 MiB"},
      {"{\"coll_perf\":{\"coll\":\"" + std::string(40, '[') + "\x01\"}}\n", "is no JSON"},
  };
  for (const Case& one : cases) {
    const FileRecords file = read(good + one.line + good);
    EXPECT_EQ(file.records.size(), 2U) << one.says;
    EXPECT_EQ(file.bad_lines, 1) << one.says;
    EXPECT_EQ(file.first_bad, 2) << one.says;
    EXPECT_NE(file.problem.find(one.says), std::string::npos) << file.problem;
  }
}

TEST(InspectorRecords, ThousandsOfSizesAreGroupedByPowersOfTwo) {
  std::string content;
  for (int i = 0; i < 5000; ++i)
    content += test::object_of({.ranks = 8}, 3, "AllReduce", i, 4096U + 4U * static_cast<unsigned>(i), 50, 0);
  const FileRecords file = read(content);
  EXPECT_EQ(file.records.size(), 5000U);
  EXPECT_LE(file.sizes.size(), 1024U + 64U);
  EXPECT_EQ(file.sizes[file.records.back().size], 16384U);
}

TEST(InspectorRecords, AStrideKeepsTheSameOperationsOfEveryRank) {
  for (const std::string& content : files_of({.ranks = 3, .steps = 40})) {
    const FileRecords file = read(content, 4);
    EXPECT_EQ(file.records.size(), 40U);
    EXPECT_EQ(file.left_out, 120U);
    for (const Record& record : file.records) EXPECT_EQ(record.number % 4, 0U);
  }
}

TEST(InspectorMetrics, BothFormatsAreRead) {
  // Of the README of 2.30.7, and as inspector_prom.cc of 2.29.7 prints it (line 237).
  const std::string content =
      "# HELP nccl_bus_bandwidth_gbs of NCCL\n"
      "nccl_bus_bandwidth_gbs{version=\"v5.1\",slurm_job_id=\"unknown\",node=\"nvl72004-T01\",gpu=\"GPU0\","
      "comm_name=\"DP Group 0\","
      "n_nodes=\"1\",nranks=\"4\",collective=\"AllReduce\",message_size=\"4-5GB\",algo_proto=\"Ring_ll\"} "
      "678.263\n"
      "nccl_collective_exec_time_microseconds{version=\"v5.1\",slurm_job_id=\"unknown\",node=\"nvl72004-"
      "T01\",gpu=\"GPU0\","
      "comm_name=\"DP Group "
      "0\",n_nodes=\"1\",nranks=\"4\",collective=\"AllReduce\",message_size=\"4-5GB\",algo_proto=\"Ring_ll\"}"
      " 9498.47\n"
      "nccl_algorithm_bandwidth_gbs{comm_id=\"0x1\",hostname=\"h\",rank=\"3\",slurm_job=\"j\",slurm_job_id="
      "\"1\",nranks=\"4\","
      "n_nodes=\"2\",gpu_device_id=\"GPU3\",collective=\"AllGather\",coll_sn=\"7\",timestamp=\"2026-01-01T00:"
      "00:00Z\",message_size=\"4.00MB\"} 10\n"
      "nccl_bus_bandwidth_gbs{comm_id=\"0x1\",hostname=\"h\",rank=\"3\",slurm_job=\"j\",slurm_job_id=\"1\","
      "nranks=\"4\","
      "n_nodes=\"2\",gpu_device_id=\"GPU3\",collective=\"AllGather\",coll_sn=\"7\",timestamp=\"2026-01-01T00:"
      "00:00Z\",message_size=\"4.00MB\"} 7.5\n";
  ASSERT_TRUE(opens_metrics(content));
  const Metrics metrics = read_metrics(content);
  EXPECT_EQ(metrics.bad_lines, 0) << metrics.problem;
  ASSERT_EQ(metrics.means.size(), 2U);
  const Mean& gathers = metrics.means[0];
  EXPECT_EQ(gathers.rank, 3);
  EXPECT_EQ(gathers.bytes, 4U * (4U << 20)) << "of all ranks";
  EXPECT_EQ(gathers.busbw, 7.5);
  const Mean& reduces = metrics.means[1];
  EXPECT_EQ(reduces.communicator, "DP Group 0");
  EXPECT_EQ(reduces.gpu, "GPU0");
  EXPECT_EQ(reduces.bytes, std::uint64_t{4} << 30);
  EXPECT_EQ(reduces.busbw, 678.263);
  EXPECT_EQ(reduces.microseconds, 9498.47);
  for (std::size_t length = 0; length < content.size(); ++length)
    EXPECT_EQ(read_metrics(std::string_view(content).substr(0, length)).bad_lines, 0) << length;
  EXPECT_EQ(read_metrics("nccl_bus_bandwidth_gbs{a=\"b} 1\n" + content).first_bad, 1);
  EXPECT_EQ(read_metrics(content + "nccl_bus_bandwidth_gbs 1\n").bad_lines, 1);
}

}  // namespace
}  // namespace weft::report::inspector
