// Variables of NCCL by name, version and value, and names that only look like one.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "unit/tools/weft-report/env/environments.hpp"
#include "weft-report/env/lint.hpp"
#include "weft-report/env/variables.hpp"
#include "weft/core/error.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

using test::causes_in;
using Causes = std::set<std::string>;

/// Variables that tuning guides and images set most.
constexpr std::string_view most_used[] = {
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_FILE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_IB_HCA",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_MERGE_NICS",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_GDR_C2C",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_BUFFSIZE",
    "NCCL_NTHREADS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_CROSS_NIC",
    "NCCL_COLLNET_ENABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_PXN_DISABLE",
    "NCCL_TOPO_FILE",
    "NCCL_TUNER_PLUGIN",
    "NCCL_LAUNCH_MODE",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_DMABUF_ENABLE",
    "NCCL_MNNVL_ENABLE",
};

/// Every name that is one letter away: left out, too many, another one, or two that changed places.
std::set<std::string> typos_of(const std::string& name) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::set<std::string> typos;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    for (const char letter : letters) {
      typos.insert(std::string(name).insert(i, 1, letter));
      if (i < name.size()) typos.insert(std::string(name).replace(i, 1, 1, letter));
    }
    if (i < name.size()) typos.insert(std::string(name).erase(i, 1));
    if (i + 1 < name.size()) {
      std::string swapped = name;
      std::swap(swapped[i], swapped[i + 1]);
      typos.insert(swapped);
    }
  }
  typos.erase(name);
  return typos;
}

TEST(Names, EveryTypoOfOneLetterIsCaughtAndNamesTheRightOne) {
  EXPECT_GE(std::size(most_used), 50U);
  for (const std::string_view name : most_used) {
    ASSERT_NE(find_variable(name), nullptr) << name;
    for (const std::string& typo : typos_of(std::string(name))) {
      ASSERT_EQ(find_variable(typo), nullptr) << typo << " is a variable itself";
      const std::vector<Finding> findings = check_names(test::settings_of({typo + "=1"}), newest_known);
      ASSERT_EQ(findings.size(), 1U) << typo;
      EXPECT_EQ(findings[0].cause, "unknown-variable") << typo;
      EXPECT_NE(findings[0].fix.find(name), std::string::npos) << typo << ": " << findings[0].fix;
    }
  }
}

TEST(Names, NoneIsNamedThatIsNotNear) {
  EXPECT_EQ(nearest_variables("NCCL_TIMEOUT"), std::vector<std::string_view>{});
  EXPECT_EQ(nearest_variables("PATH"), std::vector<std::string_view>{});
  EXPECT_EQ(nearest_variables("CL_DEBUG"), std::vector<std::string_view>{});
  EXPECT_EQ(nearest_variables(std::string(1 << 20, 'N')), std::vector<std::string_view>{});
  EXPECT_EQ(nearest_variables("nccl_debug"), std::vector<std::string_view>{"NCCL_DEBUG"});
  EXPECT_EQ(nearest_variables("NCCL_IB_TIME_OUTS"), std::vector<std::string_view>{"NCCL_IB_TIMEOUT"});
  EXPECT_EQ(nearest_variables("NCCL_M_CTAS"), std::vector<std::string_view>{});
  EXPECT_EQ(nearest_variables("NCCL_MN_CTAS"), std::vector<std::string_view>{"NCCL_MIN_CTAS"});
  EXPECT_EQ(nearest_variables("NCCL_MUN_CTAS"), std::vector<std::string_view>{"NCCL_MIN_CTAS"});
  EXPECT_EQ(causes_in({"NCCL_TIMEOUT=1"}), Causes{"unknown-variable"});
}

TEST(Names, OthersThanNcclSetSome) {
  EXPECT_EQ(causes_in({"NCCL_VERSION=2.32.3-1", "TORCH_NCCL_BLOCKING_WAIT=0", "NCCL_OFI_PROTOCOL=RDMA",
                       "FI_PROVIDER=efa", "NCCL_HOME=/opt/nccl", "NCCL_TESTS_DEVICE=0", "NCCL_DESYNC_DEBUG=1",
                       "NCCL_ROOT_DIR=/opt", "AWS_REGION=x", "WEFT_NCCL_LIBRARY=libnccl.so.2",
                       "RCCL_MSCCL_ENABLE=1", "NCCL_FASTRAK_IFNAME=eth1"}),
            Causes{});
}

TEST(Names, AVersionReadsSomeAndOthersNot) {
  EXPECT_EQ(causes_in({"NCCL_TREE_THRESHOLD=0"}, {{2, 4, 8}}), Causes{});
  EXPECT_EQ(causes_in({"NCCL_TREE_THRESHOLD=0"}), Causes{"variable-gone"});
  EXPECT_EQ(causes_in({"NCCL_RAS_ENABLE=1"}, {{2, 23, 4}}), Causes{"variable-not-yet"});
  EXPECT_EQ(causes_in({"NCCL_RAS_ENABLE=1"}, {{2, 24, 3}}), Causes{});
  EXPECT_EQ(causes_in({"NCCL_SHM_USE_CUDA_MEMCPY=1"}, {{2, 28, 9}}), Causes{});
  EXPECT_EQ(causes_in({"NCCL_SHM_USE_CUDA_MEMCPY=1"}), Causes{"variable-gone"});
  EXPECT_EQ(causes_in({"NCCL_GRAPH_HELPER_DISABLE=1"}), Causes{"variable-without-effect"});
  // A plug-in may be newer than NCCL, and the oldest version looked at is not the first that had a variable.
  EXPECT_EQ(causes_in({"NCCL_INSPECTOR_POOL_GROW=1"}, {{2, 28, 3}}), Causes{});
  EXPECT_EQ(causes_in({"NCCL_IB_HCA==mlx5_0"}, {{2, 2, 0}}), Causes{});
  const std::vector<Finding> findings = check_names(test::settings_of({"NCCL_LL_THRESHOLD=0"}), newest_known);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].fix, "remove it; NCCL_PROTO came instead");
}

TEST(Names, AnImageMayHoldAnotherVersion) {
  EXPECT_EQ(causes_in({"NCCL_VERSION=2.20.5-1+cuda12.4"}), Causes{"another-version"});
  EXPECT_EQ(causes_in({"NCCL_VERSION=2.20.5"}, {{2, 20, 3}}), Causes{});
  EXPECT_EQ(causes_in({"NCCL_VERSION=newest"}), Causes{});
}

// The facts that the table was made from, where they are at hand.
TEST(Variables, NoneOfTheListOfFactsIsUnknownInItsVersions) {
  std::ifstream facts(WEFT_SOURCE_DIR "/../shared/facts/nccl_env.tsv");
  if (!facts) GTEST_SKIP() << "skipped: there is no ../shared/facts/nccl_env.tsv";
  std::string line;
  std::getline(facts, line);
  int rows = 0;
  while (std::getline(facts, line)) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '\t');) cells.push_back(cell);
    ASSERT_EQ(cells.size(), 10U) << line;
    ++rows;
    for (const auto& [cell, version] :
         {std::pair{8, NcclVersion{{2, 28, 9}}}, std::pair{9, NcclVersion{{2, 30, 7}}}}) {
      const std::vector<Finding> findings = check_names(test::settings_of({cells[0] + "=1"}), version);
      const bool ours = cells[0].starts_with("NCCL_");
      const bool ignored = ours && find_variable(cells[0])->kind == Kind::ignored;
      const bool there = cells[static_cast<std::size_t>(cell)] == "yes" || !ours ||
                         find_variable(cells[0])->kind == Kind::plugin;
      EXPECT_EQ(findings.empty(), there && !ignored) << cells[0] << " in " << name(version);
      EXPECT_FALSE(test::causes_of(findings).contains("unknown-variable")) << cells[0];
    }
  }
  EXPECT_GE(rows, 280);
}

TEST(Variables, AreSortedAndKnowTheirValues) {
  EXPECT_GE(nccl_variables().size(), 290U);
  EXPECT_TRUE(std::ranges::is_sorted(nccl_variables(), std::ranges::less_equal(), &Variable::name));
  const std::set<std::string_view> kinds{"text",  "integer", "real",      "numbers", "words",
                                         "level", "list",    "functions", "policy"};
  for (const Variable& one : nccl_variables()) {
    const std::string_view kind = one.values.substr(0, one.values.find(' '));
    EXPECT_TRUE(kinds.contains(kind) || kind.find("..") != std::string_view::npos) << one.name;
    EXPECT_TRUE(parse_nccl_version(one.since, 0)) << one.name;
    EXPECT_TRUE(one.gone.empty() || parse_nccl_version(one.gone, 0)) << one.name;
    EXPECT_FALSE(foreign_owner(one.name)) << one.name;
  }
}

struct ValueCase {
  const char* name;
  const char* good;
  const char* bad;
  const char* complaint;
};

TEST(Variables, SayWhatIsWrongWithAValue) {
  for (const ValueCase& one : std::initializer_list<ValueCase>{
           {"NCCL_IB_DISABLE", "0x1", "true", "is no whole number; NCCL reads 0"},
           {"NCCL_BUFFSIZE", "4194304", "4M", "is no whole number; NCCL reads 4"},
           {"NCCL_BUFFSIZE", "-2", "99999999999999999999", "is too large; NCCL takes its default"},
           {"NCCL_IB_TIMEOUT", "31", "32", "is out of range"},
           {"NCCL_IB_TIMEOUT", "0", "-1", "is out of range"},
           {"NCCL_IB_TIMEOUT", "22", "022", "starts with 0, which makes it octal; NCCL reads 18"},
           {"NCCL_NTHREADS", "256", "300", "is none of these numbers"},
           {"NCCL_DEBUG", "warn", "DEBUG", "is none of them"},
           {"NCCL_DEBUG_SUBSYS", "^INIT,NET", "INIT,NETWORK", "names 'network', which is unknown"},
           {"NCCL_ALGO", "ring,collnetdirect;allreduce:^tree", "Rings", "names 'rings', which is unknown"},
           {"NCCL_ALGO", "Tree", ",", "names nothing"},
           {"NCCL_PROTO", "^LL128", "Fast", "names 'fast', which is unknown"},
           {"NCCL_P2P_LEVEL", "NVL", "nvl", "is not in capitals; NCCL ignores it"},
           {"NCCL_NET_GDR_LEVEL", "5", "FAR", "is no level; NCCL ignores it"},
           {"NCCL_CTA_POLICY", "EFFICIENCY|ZERO", "FAST", "names 'FAST', which is unknown"},
           {"NCCL_CTA_POLICY", "2", "3", "is out of range"},
           {"NCCL_NETDEVS_POLICY", "MAX:2", "MAX:", "is none of them"},
           {"NCCL_RAS_TIMEOUT_FACTOR", "0.5", "0", "is no positive number"},
           {"NCCL_SOCKET_FAMILY", "AF_INET6", "ipv6", "is none of them"},
           {"NCCL_MAX_NCHANNELS", "1", "0", "is out of range"},
       }) {
    SCOPED_TRACE(text(one.name, '=', one.bad));
    const Variable& variable = *find_variable(one.name);
    EXPECT_EQ(complaint_about(variable, one.good), std::nullopt);
    EXPECT_EQ(complaint_about(variable, ""), std::nullopt);
    EXPECT_EQ(complaint_about(variable, one.bad).value_or("none"), one.complaint);
    EXPECT_TRUE(causes_in({text(one.name, '=', one.bad)}).contains("value-not-allowed"));
  }
  EXPECT_EQ(allowed_values(*find_variable("NCCL_MAX_NCHANNELS")), "a whole number from 1");
  EXPECT_EQ(allowed_values(*find_variable("NCCL_SOCKET_FAMILY")), "one of AF_INET, AF_INET6");
}

TEST(NcclVersions, AreReadAsUsersWriteThem) {
  EXPECT_EQ(parse_nccl_version("2.28.9", 0), (NcclVersion{{2, 28, 9}}));
  EXPECT_EQ(parse_nccl_version("2.28.9-1+cuda13.0", 0), (NcclVersion{{2, 28, 9}}));
  EXPECT_EQ(parse_nccl_version("2.28", 999), (NcclVersion{{2, 28, 999}}));
  EXPECT_EQ(name(*parse_nccl_version("2.28", 999)), "2.28");
  EXPECT_EQ(name(newest_known), "2.32.3");
  for (const char* bad :
       {"", "2", "2.", "v2.28", "2.28.9.1", "2.28.x", "2.28.", "2.-3.1", "2.99999999999.1", "2.1000"})
    EXPECT_EQ(parse_nccl_version(bad, 0), std::nullopt) << bad;
}

TEST(NcclVersions, AreAmongThoseThatWordsName) {
  const auto among = [](const char* version, std::string_view words) {
    return is_among(*parse_nccl_version(version, 0), words);
  };
  EXPECT_TRUE(among("2.12.0", "2.12 and newer"));
  EXPECT_TRUE(among("3.0.1", "2.12 and newer"));
  EXPECT_FALSE(among("2.11.4", "2.12 and newer"));
  EXPECT_FALSE(among("2.23.3", "2.23.4 and newer"));
  EXPECT_TRUE(among("2.18.6", "before 2.19"));
  EXPECT_FALSE(among("2.19.0", "before 2.19"));
  EXPECT_FALSE(among("2.26.5", "2.27 to 2.29"));
  EXPECT_TRUE(among("2.27.0", "2.27 to 2.29"));
  EXPECT_TRUE(among("2.29.7", "2.27 to 2.29"));
  EXPECT_FALSE(among("2.30.1", "2.27 to 2.29"));
  for (const char* bad : {"", "2.12", "newer", "2.x and newer", "before", "2.27 to", "2.27 to new"})
    EXPECT_THROW(among("2.28.9", bad), Error) << bad;
}

}  // namespace
}  // namespace weft::report
