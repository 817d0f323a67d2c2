// Each rule fires on what it is for, and does not on what is near to it.

#include "weft-report/env/rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/tools/weft-report/env/environments.hpp"
#include "weft-report/env/variables.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

using Words = std::vector<std::string>;

struct RuleCase {
  std::string cause;
  Words fires;
  Words near_miss;
};

const std::vector<RuleCase>& rule_cases() {
  static const std::vector<RuleCase> cases{
      {"chunk-size-too-large", {"NCCL_CHUNK_SIZE=1048576"}, {"NCCL_CHUNK_SIZE=1048575"}},
      {"p2p-chunk-size-too-large", {"NCCL_P2P_NET_CHUNKSIZE=0x100000"}, {"NCCL_P2P_NET_CHUNKSIZE=524288"}},
      {"ll128-forced", {"NCCL_PROTO=LL,ll128"}, {"NCCL_PROTO=^LL128"}},
      {"gdr-flush-disabled", {"NCCL_GDR_FLUSH_DISABLE=1"}, {"NCCL_GDR_FLUSH_DISABLE=0"}},
      {"legacy-registration", {"NCCL_LEGACY_CUDA_REGISTER=1"}, {"NCCL_LEGACY_CUDA_REGISTER=0"}},
      {"infinite-ib-timeout", {"NCCL_IB_TIMEOUT=0"}, {"NCCL_IB_TIMEOUT=20"}},
      {"async-events-ignored", {"NCCL_IB_RETURN_ASYNC_EVENTS=0"}, {"NCCL_IB_RETURN_ASYNC_EVENTS=1"}},
      {"receive-requests-posted-early",
       {"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=1"},
       {"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=0"}},
      {"disabled-p2p-ignored", {"NCCL_IGNORE_DISABLED_P2P=2"}, {"NCCL_IGNORE_DISABLED_P2P=1"}},
      {"communicators-forced-nonblocking", {"NCCL_COMM_BLOCKING=0"}, {"NCCL_COMM_BLOCKING=1"}},
      {"example-tuner",
       {"NCCL_TUNER_PLUGIN=libnccl-tuner-example.so"},
       {"NCCL_TUNER_PLUGIN=libnccl-tuner-ours.so"}},
      {"multi-rank-gpu-with-nvls",
       {"NCCL_MULTI_RANK_GPU_ENABLE=1", "NCCL_NVLS_ENABLE=1"},
       {"NCCL_MULTI_RANK_GPU_ENABLE=1", "NCCL_NVLS_ENABLE=2"}},
      {"graph-order-with-mixing",
       {"NCCL_GRAPH_STREAM_ORDERING=0", "NCCL_GRAPH_MIXING_SUPPORT=1"},
       {"NCCL_GRAPH_STREAM_ORDERING=0", "NCCL_GRAPH_MIXING_SUPPORT=0"}},
      {"ib-forced-and-disabled",
       {"NCCL_NET=ib", "NCCL_IB_DISABLE=1"},
       {"NCCL_NET=Socket", "NCCL_IB_DISABLE=1"}},
      {"nvls-forced-and-disabled",
       {"NCCL_ALGO=allreduce:NVLSTree", "NCCL_NVLS_ENABLE=0"},
       {"NCCL_ALGO=Tree", "NCCL_NVLS_ENABLE=0"}},
      {"collnet-forced-and-disabled",
       {"NCCL_ALGO=CollnetDirect", "NCCL_COLLNET_ENABLE=0"},
       {"NCCL_ALGO=CollnetDirect", "NCCL_COLLNET_ENABLE=1"}},
      {"nvls-without-cumem",
       {"NCCL_NVLS_ENABLE=1", "NCCL_CUMEM_ENABLE=0"},
       {"NCCL_NVLS_ENABLE=1", "NCCL_CUMEM_ENABLE=1"}},
      {"mnnvl-without-cumem",
       {"NCCL_MNNVL_ENABLE=1", "NCCL_CUMEM_ENABLE=0"},
       {"NCCL_MNNVL_ENABLE=2", "NCCL_CUMEM_ENABLE=0"}},
      {"too-many-sockets",
       {"NCCL_SOCKET_NTHREADS=16", "NCCL_NSOCKS_PERTHREAD=5"},
       {"NCCL_SOCKET_NTHREADS=16", "NCCL_NSOCKS_PERTHREAD=4"}},
      {"ib-disabled", {"NCCL_IB_DISABLE=1"}, {"NCCL_IB_DISABLE=0"}},
      {"p2p-disabled", {"NCCL_P2P_DISABLE=1"}, {"NCCL_P2P_DISABLE="}},
      {"p2p-level-local", {"NCCL_P2P_LEVEL=LOC"}, {"NCCL_P2P_LEVEL=NVL"}},
      {"shm-disabled", {"NCCL_SHM_DISABLE=1"}, {"NCCL_SHM_DISABLE=0"}},
      {"intra-node-over-network",
       {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"},
       {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=0"}},
      {"gdr-level-local", {"NCCL_NET_GDR_LEVEL=0"}, {"NCCL_NET_GDR_LEVEL=1"}},
      {"gdr-level-local-by-old-name", {"NCCL_IB_GDR_LEVEL=LOC"}, {"NCCL_IB_GDR_LEVEL=SYS"}},
      {"socket-network-forced", {"NCCL_NET=Socket"}, {"NCCL_NET=IB"}},
      {"interface-loopback", {"NCCL_SOCKET_IFNAME=eth0,lo"}, {"NCCL_SOCKET_IFNAME=^lo"}},
      {"interface-docker", {"NCCL_SOCKET_IFNAME==docker0"}, {"NCCL_SOCKET_IFNAME=^docker0"}},
      {"gdr-read-off", {"NCCL_NET_GDR_READ=0"}, {"NCCL_NET_GDR_READ=1"}},
      {"dmabuf-off", {"NCCL_DMABUF_ENABLE=0"}, {"NCCL_DMABUF_ENABLE=1"}},
      {"nvls-off", {"NCCL_NVLS_ENABLE=0"}, {"NCCL_NVLS_ENABLE=2"}},
      {"cumem-off", {"NCCL_CUMEM_ENABLE=0"}, {"NCCL_CUMEM_ENABLE=-2"}},
      {"relaxed-ordering-off", {"NCCL_IB_PCI_RELAXED_ORDERING=0"}, {"NCCL_IB_PCI_RELAXED_ORDERING=2"}},
      {"one-channel", {"NCCL_MAX_NCHANNELS=2"}, {"NCCL_MAX_NCHANNELS=3"}},
      {"one-cta", {"NCCL_MAX_CTAS=1"}, {"NCCL_MAX_CTAS=4"}},
      {"small-buffers", {"NCCL_BUFFSIZE=65536"}, {"NCCL_BUFFSIZE=-2"}},
      {"hca-by-prefix", {"NCCL_IB_HCA=mlx5_1,mlx5_2"}, {"NCCL_IB_HCA==mlx5_1,mlx5_2"}},
      {"hosts-split", {"NCCL_HOSTID=a"}, {"NCCL_HOSTID="}},
      {"debug-trace", {"NCCL_DEBUG=TRACE"}, {"NCCL_DEBUG=WARN"}},
      {"debug-every-collective",
       {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,COLL"},
       {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,NET"}},
      {"debug-info", {"NCCL_DEBUG=info"}, {"NCCL_DEBUG=VERSION"}},
      {"debug-file-shared", {"NCCL_DEBUG_FILE=/tmp/nccl.log"}, {"NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log"}},
      {"debug-subsys-alone", {"NCCL_DEBUG_SUBSYS=NET"}, {"NCCL_DEBUG_SUBSYS=NET", "NCCL_DEBUG=INFO"}},
      {"launch-blocking", {"CUDA_LAUNCH_BLOCKING=1"}, {"CUDA_LAUNCH_BLOCKING=0"}},
      {"pointers-checked", {"NCCL_CHECK_POINTERS=1"}, {"NCCL_CHECK_POINTERS=0"}},
      {"arguments-checked", {"NCCL_CHECK_MODE=debug_local"}, {"NCCL_CHECK_MODE=DEFAULT"}},
      {"algorithm-forced", {"NCCL_ALGO=Ring"}, {"NCCL_ALGO="}},
      {"protocol-forced", {"NCCL_PROTO=Simple"}, {"NCCL_PROTO="}},
      {"symmetric-kernel-forced", {"NCCL_SYM_KERNEL=AllReduce_RSxLD_AGxST"}, {"NCCL_SYM_CTAS=4"}},
      {"graph-file-leftover", {"NCCL_GRAPH_FILE=/tmp/graph.xml"}, {"NCCL_TOPO_FILE=/tmp/topo.xml"}},
      {"topology-dumped", {"NCCL_TOPO_DUMP_FILE=/tmp/topo.xml"}, {"NCCL_TOPO_DUMP_FILE_RANK=1"}},
      {"graph-dumped", {"NCCL_GRAPH_DUMP_FILE=/tmp/graph.xml"}, {"NCCL_GRAPH_DUMP_FILE_RANK=1"}},
      {"parameters-dumped", {"NCCL_PARAM_DUMP_ALL=TRUE"}, {"NCCL_PARAM_DUMP_ALL=0"}},
      {"cache-off", {"NCCL_NO_CACHE=ALL"}, {"NCCL_NO_CACHE="}},
      {"gid-index-by-hand", {"NCCL_IB_GID_INDEX=3"}, {"NCCL_IB_GID_INDEX=-1"}},
      {"launch-mode-group", {"NCCL_LAUNCH_MODE=GROUP"}, {"NCCL_LAUNCH_MODE=PARALLEL"}},
      {"max-channels-renamed", {"NCCL_MAX_NCHANNELS=16"}, {"NCCL_MAX_CTAS=16"}},
      {"min-channels-renamed", {"NCCL_MIN_NCHANNELS=16"}, {"NCCL_MIN_CTAS=16"}},
      {"gdr-level-renamed", {"NCCL_IB_GDR_LEVEL=SYS"}, {"NCCL_NET_GDR_LEVEL=SYS"}},
      {"pytorch-error-handling-renamed",
       {"NCCL_ASYNC_ERROR_HANDLING=1"},
       {"NCCL_ASYNC_ERROR_HANDLING=1", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"}},
      {"pytorch-blocking-wait-renamed", {"NCCL_BLOCKING_WAIT=1"}, {"TORCH_NCCL_BLOCKING_WAIT=1"}},
      {"one-connection", {"CUDA_DEVICE_MAX_CONNECTIONS=1"}, {"CUDA_DEVICE_MAX_CONNECTIONS=8"}},
      {"ib-settings-without-ib", {"NCCL_IB_DISABLE=1", "NCCL_IB_TIMEOUT=22"}, {"NCCL_IB_DISABLE=1"}},
      {"socket-network-with-ib-settings",
       {"NCCL_NET=Socket", "NCCL_IB_HCA=mlx5"},
       {"NCCL_NET=Socket", "NCCL_IB_DISABLE=1"}},
      {"p2p-level-without-p2p",
       {"NCCL_P2P_LEVEL=SYS", "NCCL_P2P_DISABLE=1"},
       {"NCCL_P2P_LEVEL=SYS", "NCCL_P2P_DISABLE=0"}},
      {"policy-with-algorithm",
       {"NCCL_CTA_POLICY=EFFICIENCY", "NCCL_ALGO=Ring"},
       {"NCCL_CTA_POLICY=ZERO", "NCCL_ALGO=Ring"}},
      {"policy-with-protocol",
       {"NCCL_CTA_POLICY=1", "NCCL_PROTO=LL"},
       {"NCCL_CTA_POLICY=2", "NCCL_PROTO=LL"}},
      {"policy-with-tuner",
       {"NCCL_CTA_POLICY=1", "NCCL_TUNER_PLUGIN=ours"},
       {"NCCL_CTA_POLICY=1", "NCCL_TUNER_PLUGIN=none"}},
      {"gid-index-with-range",
       {"NCCL_IB_GID_INDEX=3", "NCCL_IB_ADDR_RANGE=10.0.0.0/8"},
       {"NCCL_IB_GID_INDEX=-1", "NCCL_IB_ADDR_RANGE=10.0.0.0/8"}},
      {"gid-index-with-family",
       {"NCCL_IB_GID_INDEX=0", "NCCL_IB_ADDR_FAMILY=AF_INET6"},
       {"NCCL_IB_ADDR_FAMILY=AF_INET6"}},
      {"gid-index-with-version",
       {"NCCL_IB_GID_INDEX=3", "NCCL_IB_ROCE_VERSION_NUM=2"},
       {"NCCL_IB_ROCE_VERSION_NUM=2"}},
      {"fewest-ctas-above-most",
       {"NCCL_MIN_CTAS=32", "NCCL_MAX_CTAS=16"},
       {"NCCL_MIN_CTAS=16", "NCCL_MAX_CTAS=16"}},
      {"fewest-channels-above-most",
       {"NCCL_MIN_NCHANNELS=32", "NCCL_MAX_NCHANNELS=16"},
       {"NCCL_MIN_NCHANNELS=4", "NCCL_MAX_NCHANNELS=16"}},
      {"fewest-p2p-channels-above-most",
       {"NCCL_MIN_P2P_NCHANNELS=8", "NCCL_MAX_P2P_NCHANNELS=4"},
       {"NCCL_MIN_P2P_NCHANNELS=4", "NCCL_MAX_P2P_NCHANNELS=4"}},
      {"two-largest-numbers",
       {"NCCL_MAX_CTAS=16", "NCCL_MAX_NCHANNELS=8"},
       {"NCCL_MAX_CTAS=16", "NCCL_MAX_NCHANNELS=16"}},
      {"two-least-numbers",
       {"NCCL_MIN_CTAS=16", "NCCL_MIN_NCHANNELS=8"},
       {"NCCL_MIN_CTAS=16", "NCCL_MIN_NCHANNELS=16"}},
      {"split-without-queue-pairs",
       {"NCCL_IB_SPLIT_DATA_ON_QPS=1"},
       {"NCCL_IB_SPLIT_DATA_ON_QPS=1", "NCCL_IB_QPS_PER_CONNECTION=4"}},
      {"adaptive-routing-never",
       {"NCCL_IB_AR_THRESHOLD=8388608", "NCCL_BUFFSIZE=4194304"},
       {"NCCL_IB_AR_THRESHOLD=8192", "NCCL_BUFFSIZE=4194304"}},
      {"pxn-level-without-pxn",
       {"NCCL_P2P_PXN_LEVEL=2", "NCCL_PXN_DISABLE=1"},
       {"NCCL_P2P_PXN_LEVEL=0", "NCCL_PXN_DISABLE=1"}},
      {"bootstrap-interface-unused",
       {"NCCL_OOB_NET_IFNAME=eth0"},
       {"NCCL_OOB_NET_IFNAME=eth0", "NCCL_OOB_NET_ENABLE=1"}},
      {"plugin-off-with-efa",
       {"FI_PROVIDER=efa", "NCCL_NET_PLUGIN=none"},
       {"FI_PROVIDER=tcp", "NCCL_NET_PLUGIN=none"}},
      {"environment-plugin", {"NCCL_ENV_PLUGIN=site"}, {"NCCL_ENV_PLUGIN=none"}},
      {"slurm-exports-nothing",
       {"SLURM_EXPORT_ENV=NONE", "NCCL_DEBUG=WARN"},
       {"SLURM_EXPORT_ENV=NONE", "NCCL_DEBUG=WARN", "SLURM_PROCID=0"}},
      {"mpirun-without-x",
       {"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile", "NCCL_DEBUG=WARN"},
       {"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile", "NCCL_DEBUG=WARN", "OMPI_COMM_WORLD_RANK=0"}},
      {"kubernetes-launcher",
       {"KUBERNETES_SERVICE_HOST=10.0.0.1", "OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh", "NCCL_DEBUG=WARN"},
       {"KUBERNETES_SERVICE_HOST=10.0.0.1", "NCCL_DEBUG=WARN"}},
      {"ssh-passes-nothing", {"SSH_CONNECTION=a 1 b 22", "NCCL_DEBUG=WARN"}, {"SSH_CONNECTION=a 1 b 22"}},
  };
  return cases;
}

TEST(SettingRules, EachFiresAndDoesNotFireOnWhatIsNear) {
  for (const RuleCase& one : rule_cases()) {
    SCOPED_TRACE(one.cause);
    EXPECT_TRUE(test::causes_in(one.fires).contains(one.cause));
    EXPECT_FALSE(test::causes_in(one.near_miss).contains(one.cause));
  }
}

TEST(SettingRules, AreAllTriedAndHaveCausesOfTheirOwn) {
  std::set<std::string> tried;
  for (const RuleCase& one : rule_cases()) EXPECT_TRUE(tried.insert(one.cause).second) << one.cause;
  std::set<std::string> all;
  for (const Rule& one : setting_rules()) EXPECT_TRUE(all.insert(std::string(one.cause)).second) << one.cause;
  EXPECT_EQ(tried, all);
}

// What a rule says of a variable is said of one that NCCL, CUDA or a launcher has.
TEST(SettingRules, NameVariablesThatExist) {
  for (const Rule& rule : setting_rules()) {
    for (const Condition& condition : rule.conditions) {
      if (!condition.name.starts_with("NCCL_") || condition.name.ends_with('*')) continue;
      EXPECT_TRUE(find_variable(condition.name) != nullptr || foreign_owner(condition.name))
          << rule.cause << ": " << condition.name;
    }
  }
}

TEST(SettingRules, HoldFromAVersionOn) {
  const std::vector<std::string> lines{"NCCL_IB_GID_INDEX=3"};
  EXPECT_FALSE(test::causes_in(lines, {{2, 20, 5}}).contains("gid-index-by-hand"));
  EXPECT_TRUE(test::causes_in(lines, {{2, 21, 5}}).contains("gid-index-by-hand"));
}

// An environment that is not given may set what a configuration file lacks.
TEST(SettingRules, DoNotCallAVariableUnsetThatAnEnvironmentMaySet) {
  const std::string content = "NCCL_DEBUG_SUBSYS=NET\n";
  const auto causes = [&](Lines lines) {
    return test::causes_of(lint({read_settings(content, "f", lines)}, newest_known));
  };
  EXPECT_TRUE(causes(Lines::environment).contains("debug-subsys-alone"));
  EXPECT_FALSE(causes(Lines::configuration).contains("debug-subsys-alone"));
}

TEST(SettingRules, ShowWhatTheyFound) {
  const std::vector<Finding> findings = apply_rules(
      test::settings_of({"NCCL_IB_DISABLE=1", "NCCL_IB_HCA==mlx5_0", "NCCL_IB_SL=1"}), newest_known);
  const auto at = std::ranges::find(findings, "ib-settings-without-ib", &Finding::cause);
  ASSERT_NE(at, findings.end());
  EXPECT_EQ(at->verdict,
            "NCCL_IB_DISABLE=1 with NCCL_IB_HCA==mlx5_0 and 1 more: InfiniBand is disabled, so other "
            "settings of it "
            "have no effect");
  ASSERT_EQ(at->evidence.size(), 3U);
  EXPECT_EQ(at->evidence[2].text, "NCCL_IB_SL=1");
  EXPECT_EQ(at->evidence[2].file, "environment");
}

TEST(SettingRules, TakeValuesOfNothingButSeparators) {
  for (const char* value : {",", ":", "^", "=", ";", ",,", ":,", "^,", "^=", "=,", " ", "-", "%", "/"}) {
    Words all;
    for (const Variable& variable : nccl_variables()) all.push_back(text(variable.name, '=', value));
    EXPECT_NO_THROW(apply_rules(test::settings_of(all), newest_known)) << value;
  }
}

}  // namespace
}  // namespace weft::report
