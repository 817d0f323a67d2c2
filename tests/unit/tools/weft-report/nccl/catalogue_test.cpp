// The catalogue is whole, finds the row of a line, and decides by other lines; nothing that went wrong stays unsaid.

#include "weft-report/nccl/catalogue/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "weft-report/nccl/nccl.hpp"
#include "weft-report/nccl/rules/rules.hpp"

namespace weft::report::nccl {
namespace {

std::vector<Finding> findings_of(const std::string& content) {
  JobLog log;
  log.add(content, "log");
  return examine(log.job());
}
const Finding* finding_named(const std::vector<Finding>& findings, std::string_view cause) {
  const auto found = std::ranges::find(findings, cause, &Finding::cause);
  return found == findings.end() ? nullptr : &*found;
}
std::string warn(const std::string& source, const std::string& message) {
  return "node1:700:701 [2] " + source + " NCCL WARN " + message + "\n";
}
std::string info(const std::string& message) {
  return "node1:700:701 [2] NCCL INFO " + message + "\n";
}
std::string_view topic_named(const std::string& line) {
  const auto row = row_of(line);
  return row ? topic_of(*row).name : std::string_view();
}

TEST(NcclCatalogue, HasATopicForEachRowAndACauseForEachTopic) {
  std::set<std::string_view> used;
  for (std::uint16_t row = 0; row < rows().size(); ++row) used.insert(topic_of(row).name);
  for (const Topic& topic : topics()) {
    EXPECT_TRUE(used.contains(topic.name)) << topic.name << " has no row";
    EXPECT_FALSE(topic.doing.empty()) << topic.name;
    ASSERT_FALSE(topic.candidates[0].cause.empty()) << topic.name;
    for (const Candidate& one : topic.candidates) {
      if (one.cause.empty()) continue;
      EXPECT_NO_THROW(cause_named(one.cause)) << topic.name;
      EXPECT_TRUE(one.confidence > 0 || !one.tells.empty()) << topic.name << ": nothing tells " << one.cause;
    }
  }
}

TEST(NcclCatalogue, FindsTheRowWithTheMostText) {
  EXPECT_EQ(topic_named("transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'"),
            "cuda-peer-device");
  EXPECT_EQ(topic_named("init.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'"),
            "cuda-device-number");
  EXPECT_EQ(topic_named("init.cc:275 NCCL WARN Cuda failure 999 'unknown error'"), "cuda-call");
  EXPECT_EQ(topic_named("Broadcast : invalid root 0 (root should be in the 0..-1 range)"),
            "argument-after-abort");
  EXPECT_EQ(topic_named("Broadcast : invalid root 9 (root should be in the 0..7 range)"), "argument");
  EXPECT_EQ(topic_named("the moon is full"), "");
}

/// A line made of each row's own text is found by the row, or by one with more text, behind any launcher's tag; the program says something.
TEST(NcclCatalogue, RecognisesALineOfEachRow) {
  const auto made_of = [](std::string_view pattern) {
    std::string line;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
      if (pattern[at] != '{') {
        line += pattern[at];
        continue;
      }
      line += "x7";
      at = pattern.find('}', at);
    }
    return line;
  };
  for (const std::string prefix : {"[2026-03-01 10:00:00] node1:700:701 [2] any.cc:12 NCCL WARN ",
                                   "[1,3]<stdout>:(worker pid=7) node1:700:701 [2] any.cc:12 NCCL WARN "}) {
    for (std::uint16_t row = 0; row < rows().size(); ++row) {
      const std::string line = prefix + made_of(rows()[row].pattern);
      const auto found = row_of(line);
      ASSERT_TRUE(found) << line;
      EXPECT_GE(rows()[*found].pattern.size() + 40, rows()[row].pattern.size()) << line;
      const std::vector<Finding> findings = findings_of(line + "\n");
      ASSERT_FALSE(findings.empty()) << line;
      EXPECT_NE(findings[0].cause, "unexplained-warning") << line;
    }
  }
}

/// Why NCCL goes on without something stands in lines of INFO. Such a job runs: nothing of it is critical.
TEST(NcclCatalogue, ReadsReasonsForGoingOnWithoutSomething) {
  std::size_t reasons = 0;
  for (const CatalogueRow& row : rows()) {
    if (!row.of_info) continue;
    ++reasons;
    std::string line(row.pattern);
    for (auto at = line.find('{'); at != std::string::npos; at = line.find('{', at))
      line.replace(at, line.find('}', at) + 1 - at, "x7");
    const std::vector<Finding> findings = findings_of(info(line));
    ASSERT_FALSE(findings.empty()) << line;
    for (const Finding& one : findings) {
      EXPECT_NE(one.severity, Severity::critical) << one.cause << ": " << line;
      EXPECT_NE(one.cause, "unexplained-warning") << line;
    }
  }
  EXPECT_GT(reasons, 60U);
  EXPECT_TRUE(findings_of(info("Symmetric memory is not supported. cuMemEnable 1, globalGinSupport 0, "
                               "cuMemGdrSupport 1") +
                          info("Failed to initialize any GIN plugin"))
                  .empty());
}

TEST(NcclCatalogue, KnowsTheLinesOfGib) {
  const std::string retry =
      "Got completion from peer 10.1.0.2<5001> with status=10 opcode=0 len=0 vendor err 129 (Recv)";
  const auto of_ib = row_of(warn("transport/net_ib.cc:1", "NET/IB: " + retry));
  ASSERT_TRUE(of_ib);
  EXPECT_EQ(row_of(warn("net_gib.cc:1", "NET/gIB: " + retry)), of_ib);
  const std::vector<Finding> enforced = findings_of(warn(
      "shim.cc:1", "NCCL/NET (shim) mismatch enforced: NCCL_P2P_NVL_CHUNKSIZE=524288 (expected 262144)"));
  ASSERT_EQ(enforced.size(), 1U);
  EXPECT_EQ(enforced[0].cause, "plugin-settings");
  EXPECT_EQ(enforced[0].severity, Severity::critical);
  const std::vector<Finding> recommended = findings_of(
      warn("shim.cc:1", "NCCL/NET (shim) mismatch recommended: NCCL_MAX_P2P_NCHANNELS=8 (expected unset)"));
  ASSERT_EQ(recommended.size(), 1U);
  EXPECT_EQ(recommended[0].severity, Severity::warning);
  EXPECT_EQ(findings_of("[rank0]: Last error:\nNo NCCL_TUNER_CONFIG_PATH provided. Please populate "
                        "NCCL_TUNER_CONFIG_PATH to use config-based tuner plugin.\n")[0]
                .cause,
            "plugin-settings");
  EXPECT_FALSE(
      findings_of(warn("init.cc:55", "NET/FasTrak 2026-03-01T10:00:00: No interfaces found.")).empty());
}

TEST(NcclCatalogue, NamesEveryCauseWhereNoOtherLineDecides) {
  const std::string registers =
      warn("misc/ibvwrap.cc:184", "Call to ibv_reg_mr failed with error Invalid argument");
  const std::vector<Finding> findings = findings_of(registers);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].cause, "gdr-registration-failed");
  EXPECT_EQ(findings[1].cause, "memlock-limit");
  for (const Finding& one : findings) {
    EXPECT_EQ(one.severity, Severity::warning) << "one line does not make it sure";
    EXPECT_TRUE(one.verdict.starts_with("possible, while NCCL registers memory for RDMA: ")) << one.verdict;
    EXPECT_TRUE(one.fix.starts_with("to find out: ")) << one.fix;
  }
}

TEST(NcclCatalogue, DecidesByASecondLine) {
  const std::string kernel = warn("enqueue.cc:1500", "Cuda failure 1 'invalid argument'");
  EXPECT_EQ(finding_named(findings_of(kernel), "nccl-too-old-for-gpu")->severity, Severity::warning);
  const std::vector<Finding> sure =
      findings_of(info("ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856") + kernel);
  EXPECT_EQ(sure[0].cause, "nccl-too-old-for-gpu");
  EXPECT_EQ(sure[0].severity, Severity::critical);
  const std::string address =
      warn("misc/socket.cc:1", "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2)");
  EXPECT_EQ(findings_of(address)[0].severity, Severity::warning);
  EXPECT_EQ(findings_of(info("NCCL_SOCKET_IFNAME set by environment to eth7") + address)[0].cause,
            "ifname-not-found");
  EXPECT_EQ(
      findings_of(info("NCCL version 2.20.5+cuda12.4") + info("NCCL version 2.19.3+cuda12.4") + address)[0]
          .cause,
      "version-mismatch");
}

TEST(NcclCatalogue, LeavesConsequencesOutWhereTheFirstErrorIsThere) {
  const std::string proxy =
      warn("proxy.cc:1542", "[Proxy Service 1] Failed to execute operation Connect from rank 1, retcode 3");
  ASSERT_EQ(findings_of(proxy).size(), 1U);
  EXPECT_EQ(findings_of(proxy)[0].cause, "peer-lost");
  const std::vector<Finding> both = findings_of(
      proxy +
      warn("rdma:4402", "NET/OFI Unable to insert remote address into address vector for device 1. RC: 0"));
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both[0].cause, "efa-security-group");
}

TEST(NcclCatalogue, ReadsTheLastWarningThatPyTorchAndJaxQuote) {
  const std::string torch =
      "[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n[rank1]: Last "
      "error:\n"
      "[rank1]: Invalid rank requested : 2/2\n";
  EXPECT_EQ(findings_of(torch)[0].cause, "invalid-rank");
  EXPECT_EQ(findings_of("INTERNAL: Last NCCL warning(error): 'wrong magic 1 != 2'\n")[0].cause,
            "foreign-connection");
  EXPECT_TRUE(findings_of("[rank1]: Last error:\n\n[rank1]: wrong magic 1 != 2\n").empty());
}

TEST(NcclCatalogue, SaysNeverThatNothingIsWrongWhereAWarningOrAnErrorStands) {
  // a rule whose condition fails leaves the line to the catalogue
  const std::string no_version = info("NCCL version 2.16.2+cuda11.8");
  EXPECT_FALSE(findings_of(no_version +
                           warn("transport/nvls.cc:1", "Failed to bind NVLink SHARP (NVLS) Multicast memory"))
                   .empty());
  const std::string retried =
      warn("misc/ibvwrap.cc:1", "Call to ibv_modify_qp failed with 22 Invalid argument");
  EXPECT_FALSE(findings_of(retried).empty());
  for (const std::string line :
       {"Traceback (most recent call last):", "RuntimeError: NCCL Error 1: unhandled cuda error",
        "CUDA error: unknown error", "train: symbol lookup error: undefined symbol: cudaFoo",
        "terminate called after throwing an instance of 'c10::Error'",
        "node1: Test NCCL failure common.cu:447 'unhandled cuda error'",
        "[node1:7] *** Signal: Segmentation fault (11) Signal: 11",
        "node1:7:7 [0] NCCL INFO misc/socket.cc:564 -> 2", "include/socket.h:344 WARN Something of old: 7"}) {
    const std::vector<Finding> findings = findings_of(std::string(line) + "\n");
    EXPECT_FALSE(findings.empty()) << line;
  }
  EXPECT_TRUE(findings_of(info("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC") + info("Trees [0] 1/-1/-1->0->-1"))
                  .empty());
}

/// Lines in the formats of public reports: intel/torch-ccl 54, openucx/ucx 8322, parthenon 1260, rapidsai/ucx-py 109, ROCm/rocm-systems 7916.
TEST(NcclCatalogue, SaysWhoseALogOfAnotherLibraryIs) {
  const std::pair<std::string, std::string> logs[] = {
      {"node1:7:7 [0] NCCL INFO RCCL version : 2.22.3-HEAD:271856d", "RCCL"},
      {"Librccl path : /opt/rocm/lib/librccl.so.1", "RCCL"},
      {"node1:7:7 [0] NCCL INFO NET/Plugin: Could not find: librccl-net.so. Using internal network plugin.",
       "RCCL"},
      {"2023:11:28-16:35:45:(35980) |CCL_WARN| did not find MPI-launcher specific variables", "oneCCL"},
      {"2023:11:28-16:35:45:(35980) |CCL_ERROR| exec.cpp:134 start_workers: condition failed", "oneCCL"},
      {"2023:11:28-16:35:45:(35980) |CCL_INFO| process launcher: hydra", "oneCCL"},
      {"RuntimeError: oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed to start worker # 0", "oneCCL"},
      {"terminate called after throwing an instance of 'ccl::v1::exception'", "oneCCL"},
      {"[1558446761.180161] [node1:66604:0]  wireup_ep.c:480  UCX  ERROR no supported transports", "UCX"},
      {"[1750940543.886091] [node1:2816367:a]  ucp_worker.c:1855 UCX  INFO  intra-node cfg#5 tag(sysv)",
       "UCX"},
      {"[node1:6788 :0:6788] ib_mlx5_log.c:171  Remote access on mlx5_0:1/IB (synd 0x13 vend 0x88)", "UCX"},
      {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer",
       "gloo"},
      {"RuntimeError: Gloo connectFullMesh failed with no error", "gloo"},
      {"terminate called after throwing an instance of 'gloo::EnforceNotMet'", "gloo"},
      {"[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1", "gloo"}};
  for (const auto& [line, library] : logs) {
    const std::vector<Finding> findings = findings_of(line + "\n");
    const Finding* other = finding_named(findings, "other-library");
    ASSERT_NE(other, nullptr) << line;
    EXPECT_TRUE(other->verdict.starts_with("lines of " + library + ":")) << other->verdict;
  }
  EXPECT_EQ(finding_named(findings_of(info("NCCL version 2.22.3+cuda12.4")), "other-library"), nullptr);
}

TEST(NcclCatalogue, SaysWhatWasLookedAtAndWhatWouldAddToIt) {
  JobLog log;
  log.add(info("Bootstrap: Using eth0:10.1.0.1<0>") + info("NCCL_IB_TIMEOUT set by environment to 22."),
          "log");
  EXPECT_EQ(what_was_looked_at(log.job()),
            "looked at: interfaces, settings; NCCL_DEBUG=INFO with these in NCCL_DEBUG_SUBSYS would add: "
            "INIT (how communicators "
            "begin), NET (network ports), GRAPH (topology), COLL (calls of collectives)");
}

}  // namespace
}  // namespace weft::report::nccl
