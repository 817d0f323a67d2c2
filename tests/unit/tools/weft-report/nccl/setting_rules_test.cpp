// Settings that logs state, judged as weft-report env judges them: those with consequences, with the line of the log.

#include <gtest/gtest.h>

#include <algorithm>

#include "weft-report/nccl/nccl.hpp"

namespace weft::report::nccl {
namespace {

std::string took(const std::string& setting, const std::string& value, const std::string& host = "node1") {
  return host + ":7:7 [0] NCCL INFO " + setting + " set by environment to " + value + "\n";
}
const std::string nodes =
    "node1:7:7 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n";
const std::string old_version = "node1:7:7 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n";

std::vector<Finding> findings_in(const std::string& content) {
  JobLog log;
  log.add(content, "log");
  return examine(log.job());
}
std::vector<std::string> causes_in(const std::string& content) {
  std::vector<std::string> all;
  for (const Finding& one : findings_in(content)) all.push_back(one.cause);
  return all;
}
using Causes = std::vector<std::string>;

TEST(NcclSettings, OfALogAreJudgedWithItsLine) {
  const auto findings = findings_in(took("NCCL_IB_TIMEOUT", "0."));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].cause, "infinite-ib-timeout");
  ASSERT_EQ(findings[0].evidence.size(), 1U);
  EXPECT_EQ(findings[0].evidence[0].line, 1);
  EXPECT_EQ(findings[0].evidence[0].text + "\n", took("NCCL_IB_TIMEOUT", "0."));
  EXPECT_TRUE(causes_in(took("NCCL_IB_TIMEOUT", "22.")).empty());
}

TEST(NcclSettings, ThatEveryRankHasAreToldOnce) {
  std::string log;
  for (const char* host : {"node1", "node2", "node3"}) log += took("NCCL_IB_TIMEOUT", "0.", host);
  EXPECT_EQ(causes_in(log), Causes{"infinite-ib-timeout"});
}

TEST(NcclSettings, WithoutConsequenceAreLeftOut) {
  EXPECT_TRUE(causes_in(took("NCCL_NVLS_ENABLE", "0.") + took("NCCL_CUMEM_ENABLE", "0.")).empty());
  EXPECT_TRUE(causes_in("NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=COLL\n").empty());
  EXPECT_TRUE(causes_in(took("NCCL_NET_GDR_LEVEL", "LOC")).empty()) << "on one node";
  EXPECT_EQ(causes_in(nodes + took("NCCL_NET_GDR_LEVEL", "LOC")), Causes{"gdr-level-local"});
}

TEST(NcclSettings, OfTheEnvironmentAreReadByName) {
  EXPECT_EQ(causes_in("export NCCL_IB_HCAS=mlx5_0\n"), Causes{"unknown-variable"});
  EXPECT_TRUE(causes_in("export NCCL_IB_HCA=mlx5_0\n").empty());
  EXPECT_EQ(causes_in(old_version + "NCCL_CONF_FILE=/etc/n.conf\n"), Causes{"variable-not-yet"});
  EXPECT_TRUE(causes_in("NCCL_CONF_FILE=/etc/n.conf\n").empty()) << "the newest version reads it";
  EXPECT_TRUE(causes_in(old_version + took("NCCL_CONF_FILE", "/etc/n.conf")).empty())
      << "NCCL itself says that it took it";
  EXPECT_EQ(causes_in("NCCL_IB_TC=many\n"), Causes{"value-not-allowed"});
}

TEST(NcclSettings, ThatAnotherFindingShowsAreNotToldTwice) {
  const auto causes = causes_in(nodes + took("NCCL_P2P_DISABLE", "1."));
  EXPECT_EQ(causes, Causes{"setting-left-over"});
  EXPECT_TRUE(causes_in(took("NCCL_GRAPH_FILE", "/opt/graph.xml")).empty())
      << "a rule of logs judges it by what NCCL says of the file";
}

}  // namespace
}  // namespace weft::report::nccl
