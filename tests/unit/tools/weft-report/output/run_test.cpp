// The facts of a run, its JSON read back, the parts of a page about it, and two runs compared.

#include "weft-report/output/run.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/findings/report_page.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft-report/output/diff.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft-report/output/run_sections.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

std::string says(int host, int rank, const std::string& message) {
  return text("node", host, ":", 700 + rank, ":1 [0] NCCL INFO ", message, "\n");
}
std::string starts(int host, int rank, int ranks) {
  return says(host, rank,
              text("comm 0x1 rank ", rank, " nranks ", ranks,
                   " cudaDev 0 nvmlDev 0 busId 1000 commId 0x7 - Init START"));
}
/// Two hosts of two ranks each.
std::string two_hosts(const std::string& version_of_second = "2.28.9",
                      const std::string& carrier = "NET/IB/0/GDRDMA") {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) {
    const int host = rank / 2;
    log += says(host, rank, "NCCL version " + (host == 0 ? "2.28.9" : version_of_second) + "+cuda13.0");
    log += says(host, rank, "Bootstrap: Using eth0:10.1.0.1<0>") + says(host, rank, "Using network IB");
    log += says(host, rank, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.1.0.1<0>");
    log += starts(host, rank, 4);
  }
  log += says(0, 0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM");
  log += says(0, 1, "Channel 00/0 : 1[1] -> 2[0] [send] via " + carrier) +
         says(0, 1, "Channel 01/0 : 1[1] -> 2[0] [send] via " + carrier);
  log += says(1, 2, "Channel 00/0 : 1[1] -> 2[0] [receive] via " + carrier);
  log += says(1, 3, "Channel 00/0 : 3[1] -> 0[0] [send] via " + carrier);
  return log;
}
RunFacts run_of_log(const std::string& content) {
  nccl::JobLog log;
  log.add(content, "log");
  return run_of(log.job(), nccl::examine(log.job()), {});
}
bool has(const std::string& page, std::string_view words) {
  return page.find(words) != std::string::npos;
}
const Change* change(const RunDiff& diff, const std::string& what) {
  const auto found = std::ranges::find(diff.facts, what, &Change::what);
  return found == diff.facts.end() ? nullptr : &*found;
}

TEST(Runs, KnowTheirHostsAndRanks) {
  const RunFacts run = run_of_log(two_hosts());
  ASSERT_EQ(run.hosts.size(), 2U);
  EXPECT_EQ(run.hosts[0].host, "node0");
  EXPECT_EQ(run.hosts[0].processes, 2U);
  EXPECT_EQ(run.hosts[1].ranks, (std::set<std::int64_t>{2, 3}));
  EXPECT_EQ(run.hosts[1].nics, (std::set<std::string>{"mlx5_0:1/IB", "mlx5_1:1/IB"}));
  EXPECT_EQ(run.hosts[1].versions, (std::set<std::string>{"2.28.9+cuda13.0"}));
  EXPECT_EQ(looked_at(run), "25 lines of 4 processes on 2 hosts");
}

TEST(Runs, CountAChannelOnceThoughBothEndsNameIt) {
  const RunFacts run = run_of_log(two_hosts());
  const auto across =
      std::ranges::find_if(run.host_links, [](const Link& link) { return link.from == 0 && link.to == 1; });
  ASSERT_NE(across, run.host_links.end());
  EXPECT_EQ(across->channels.rdma_direct, 2);
  EXPECT_EQ(run.host_links.size(), 3U) << "within node0, there and back";
  EXPECT_EQ(run.rank_links.size(), 3U);
}

TEST(Runs, LeaveSmallerCommunicatorsOutOfTheirLinks) {
  std::string log = two_hosts();
  log += says(0, 0, "comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x8 - Init START");
  log += says(0, 0, "Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0");
  const RunFacts run = run_of_log(log);
  EXPECT_TRUE(
      std::ranges::none_of(run.rank_links, [](const Link& link) { return link.channels.socket > 0; }));
  EXPECT_EQ(run.hosts[0].channels.socket, 1) << "it is counted all the same";
}

TEST(Runs, ForgetLinksWhenAWiderCommunicatorBegins) {
  const std::string small = starts(0, 0, 2) + says(0, 0, "Channel 00/0 : 0[0] -> 1[0] via P2P/IPC");
  EXPECT_EQ(run_of_log(small).rank_links.size(), 1U);
  EXPECT_EQ(run_of_log(small + starts(0, 0, 4)).rank_links.size(), 0U);
}

TEST(Runs, TakeARankFromItsChannelsWhereNoLineNamesIt) {
  const RunFacts run = run_of_log(
      "node1:7:7 [0] NCCL INFO Using network IB\nnode1:7:7 [0] NCCL INFO Channel 00/0 : 8[0] -> 3[1] "
      "[receive] via NET/IB/0\n");
  ASSERT_EQ(run.hosts.size(), 1U);
  EXPECT_EQ(run.hosts[0].ranks, (std::set<std::int64_t>{3}));
  ASSERT_EQ(run.host_links.size(), 1U);
  EXPECT_EQ(run.host_links[0].from, 1U) << "a host that is not in the logs";
}

TEST(Runs, AreReadBackFromTheirJson) {
  RunFacts run = run_of_log(two_hosts("2.27.5"));
  run.bandwidths["all_reduce float sum"] = {{8, 0.1}, {1 << 20, 88.5}};
  const std::string file = to_json(run);
  ASSERT_TRUE(opens_run(file));
  const RunFacts back = read_run(file, "run.json");
  EXPECT_EQ(to_json(back).substr(0, 200), file.substr(0, 200));
  const RunDiff diff = compare(run, back);
  EXPECT_TRUE(diff.fresh.empty() && diff.gone.empty() && diff.facts.empty());
  EXPECT_EQ(diff.same.size(), run.findings.size());
  ASSERT_EQ(diff.speeds.size(), 2U);
  EXPECT_DOUBLE_EQ(diff.speeds[1].ratio(), 1);
  EXPECT_EQ(back.findings.front().effect, run.findings.front().effect);
}

TEST(Runs, ThatAreNoneAreRefusedWithThePlace) {
  const auto refused = [](const std::string& content) {
    try {
      read_run(content, "old.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_TRUE(has(refused("{\"findings\":"), "old.json: is no JSON"));
  EXPECT_TRUE(has(refused("[]"), "old.json: is no object"));
  EXPECT_TRUE(has(refused("{\"findings\":[{\"cause\":7}]}"), "findings[0].cause is 7 and no string"));
  EXPECT_TRUE(has(refused("{\"findings\":[]}"), "has no \"hosts\""));
  EXPECT_TRUE(has(refused("{\"findings\":[{\"cause\":\"x\",\"severity\":\"dire\"}],\"hosts\":[]}"),
                  "findings[0].severity is \"dire\""));
}

TEST(Runs, OfManyHostsHaveAShortTable) {
  std::string log;
  for (int host = 0; host < 40; ++host)
    log += says(host, host, host == 7 ? "Using network Socket" : "Using network IB");
  const TextTable table = hosts_table(run_of_log(log));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0][0], "node7") << "the fewest first";
  EXPECT_EQ(table.rows[1][0], "node0 and 38 more");
  EXPECT_EQ(table.rows[1][1], "39");
}

TEST(PagesOfRuns, MarkHostsThatDiffer) {
  std::string log = two_hosts("2.27.5") + says(5, 5, "NCCL version 2.28.9+cuda13.0") +
                    says(5, 5, "Bootstrap: Using eth0:10.1.0.1<0>");
  const PageSection hosts = hosts_compared(run_of_log(log));
  EXPECT_TRUE(has(hosts.html, "≠ 2.27.5+cuda13.0")) << hosts.html;
  EXPECT_FALSE(has(hosts.html, "≠ 2.28.9")) << hosts.html;
  const PageSection ranks = rank_matrix(run_of_log(log));
  EXPECT_TRUE(has(ranks.html, "≠ node1")) << ranks.html;
  EXPECT_TRUE(has(ranks.html, ">1<b>G</b>")) << ranks.html;
  EXPECT_TRUE(has(ranks.html, ">0<b>G</b>")) << ranks.html;
}

TEST(PagesOfRuns, DoNotMarkHostsThatSayNothing) {
  const std::string log = says(0, 0, "Using network IB") + says(1, 1, "Using network IB") +
                          says(2, 2, "NCCL version 2.28.9+cuda13.0");
  EXPECT_TRUE(odd_hosts(run_of_log(log)).empty());
  const std::string two = says(0, 0, "Using network IB") + says(1, 1, "Using network Socket");
  EXPECT_EQ(odd_hosts(run_of_log(two)), (std::set<std::string>{"node0", "node1"})) << "neither is usual";
}

TEST(PagesOfRuns, ShowWhatCarriesData) {
  const PageSection direct = transports(run_of_log(two_hosts()));
  EXPECT_TRUE(has(direct.html, "node0 → node1")) << direct.html;
  EXPECT_TRUE(has(direct.html, "GPUDirect RDMA, from GPU memory"));
  EXPECT_FALSE(has(direct.html, "TCP"));
  EXPECT_TRUE(
      has(transports(run_of_log(two_hosts("2.28.9", "NET/Socket/0"))).html, "TCP, through host memory"));
  EXPECT_TRUE(has(transports(run_of_log(says(0, 0, "Using network IB"))).html, "The logs name no channel"));
}

const std::string table_of_nccl_tests =
    "#  Rank  0 Group  0 Pid  7 on    gn41 device  0 [0x18] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid  7 on    gn41 device  1 [0x6d] NVIDIA H100 80GB HBM3\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw #wrong\n"
    "   134217728      33554432     float     sum      -1    598.3  224.32  224.32      0    599.3  223.95  "
    "223.95      0\n"
    "   268435456      67108864     float     sum      -1   1111.4  241.52  241.52      0   1107.1  242.48  "
    "242.48      0\n";

TEST(PagesOfRuns, ShowBandwidthBesideItsBound) {
  nccl::JobLog log;
  log.add(table_of_nccl_tests, "log");
  const PageSection section = bandwidth_reached(log.job());
  EXPECT_TRUE(has(section.html, "<svg role=\"img\"")) << section.html;
  EXPECT_TRUE(has(section.html, "256 MiB: 242.48 GB/s")) << section.html;
  EXPECT_TRUE(has(section.html, "class=\"ideal\"")) << "the bound of two H100: " << section.html;
  EXPECT_TRUE(has(section.html, "NVLink"));
}

TEST(PagesOfRuns, SayHowToGetABandwidth) {
  nccl::JobLog log;
  log.add(two_hosts(), "log");
  const PageSection section = bandwidth_reached(log.job());
  EXPECT_TRUE(has(section.html, "all_reduce_perf")) << section.html;
  EXPECT_FALSE(has(section.html, "<svg"));
}

TEST(RunDiffs, FindBandwidthInTablesOfLogs) {
  std::string slower = table_of_nccl_tests;
  for (auto at = slower.find("242.48"); at != std::string::npos; at = slower.find("242.48"))
    slower.replace(at, 6, "121.24");
  for (auto at = slower.find("241.52"); at != std::string::npos; at = slower.find("241.52"))
    slower.replace(at, 6, "121.24");
  const RunDiff diff = compare(run_of_log(table_of_nccl_tests), run_of_log(slower));
  ASSERT_EQ(diff.speeds.size(), 2U);
  EXPECT_DOUBLE_EQ(diff.speeds[0].ratio(), 1);
  EXPECT_DOUBLE_EQ(diff.speeds[1].ratio(), 0.5);
  EXPECT_TRUE(has(diff.speeds[1].table, "2 ranks")) << diff.speeds[1].table;
}

TEST(PagesOfRuns, EscapeNamesOfHosts) {
  RunFacts run;
  for (const char* name : {"<b>x", "\"><script>"}) {
    HostFacts host{.host = name, .processes = 1};
    host.ranks = {static_cast<std::int64_t>(run.hosts.size())};
    host.networks = {name};
    run.hosts.push_back(host);
  }
  run.host_links = {{0, 1, {.socket = 1}}};
  run.rank_links = run.host_links;
  const Report report{.subject = "NCCL job",
                      .looked_at = looked_at(run),
                      .findings = run.findings,
                      .tables = {hosts_table(run)},
                      .sections = {transports(run), hosts_compared(run), rank_matrix(run)}};
  const std::string page = to_html(report);
  EXPECT_FALSE(has(page, "<b>x"));
  EXPECT_FALSE(has(page, "<script"));
  EXPECT_TRUE(has(page, "&lt;b&gt;x"));
}

TEST(PagesOfRuns, AreSmallForThousandsOfRanksThatAllDiffer) {
  std::string log;
  for (int rank = 0; rank < 1024; ++rank) {
    log += says(rank, rank, text("NCCL version 2.", rank % 30, ".", rank, "+cuda13.0")) +
           starts(rank, rank, 1024);
    for (int peer = 0; peer < 24; ++peer)
      log += says(
          rank, rank,
          text("Channel 00/0 : ", rank, "[0] -> ", (rank * 7 + peer * 31) % 1024, "[0] [send] via NET/IB/0"));
  }
  const RunFacts run = run_of_log(log);
  const Report report{.subject = "NCCL job",
                      .looked_at = looked_at(run),
                      .findings = run.findings,
                      .sections = {transports(run), hosts_compared(run), rank_matrix(run)}};
  EXPECT_LE(to_html(report).size(), 300'000U);
}

TEST(RunDiffs, NameNewAndGoneFindingsAndFactsThatDiffer) {
  const RunFacts well = run_of_log(two_hosts());
  const RunFacts ill =
      run_of_log(two_hosts("2.27.5", "NET/IB/0") + says(0, 0, "NCCL_IB_TIMEOUT set by environment to 22."));
  const RunDiff worse = compare(well, ill);
  ASSERT_FALSE(worse.fresh.empty());
  EXPECT_EQ(worse.fresh[0].cause, "version-mismatch");
  EXPECT_EQ(exit_status(worse.fresh), 2);
  ASSERT_NE(change(worse, "NCCL"), nullptr);
  EXPECT_EQ(change(worse, "NCCL")->before, "2.28.9+cuda13.0");
  EXPECT_EQ(change(worse, "NCCL")->after, "2.27.5+cuda13.0, 2.28.9+cuda13.0");
  ASSERT_NE(change(worse, "NCCL_IB_TIMEOUT"), nullptr);
  EXPECT_EQ(change(worse, "NCCL_IB_TIMEOUT")->before, "-");
  EXPECT_EQ(change(worse, "NCCL_IB_TIMEOUT")->after, "22");
  ASSERT_NE(change(worse, "channels by GPUDirect"), nullptr);
  EXPECT_EQ(change(worse, "hosts"), nullptr);
  const RunDiff better = compare(ill, well);
  EXPECT_TRUE(better.fresh.empty());
  EXPECT_EQ(better.gone.size(), worse.fresh.size());
  EXPECT_EQ(exit_status(better.fresh), 0);
  EXPECT_EQ(verdict(compare(well, well)), "no new finding, 0 are gone, 0 are the same; no fact differs");
}

TEST(RunDiffs, TakeAFindingThatBecameMoreSevereForNew) {
  RunFacts before;
  before.findings = {{.cause = "mtu-mismatch", .severity = Severity::warning}};
  RunFacts after;
  after.findings = {{.cause = "mtu-mismatch", .severity = Severity::critical}};
  EXPECT_EQ(compare(before, after).fresh.size(), 1U);
  EXPECT_EQ(compare(after, before).same.size(), 1U);
}

TEST(RunDiffs, HaveTheRatioOfEachSizeThatBothMeasured) {
  RunFacts before;
  before.bandwidths = {{"all_reduce", {{8, 1}, {16, 100}}}, {"broadcast", {{8, 1}}}};
  RunFacts after;
  after.bandwidths = {{"all_reduce", {{16, 52}, {32, 7}}}};
  const RunDiff diff = compare(before, after);
  ASSERT_EQ(diff.speeds.size(), 1U);
  EXPECT_DOUBLE_EQ(diff.speeds[0].ratio(), 0.52);
  EXPECT_TRUE(has(verdict(diff), "bandwidth is 0.52 to 0.52 times that of the first run"));
  EXPECT_TRUE(has(to_json(diff), "\"ratio\":5.2E-1"));
}

}  // namespace
}  // namespace weft::report
