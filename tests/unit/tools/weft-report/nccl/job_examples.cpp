#include "unit/tools/weft-report/nccl/rule_examples.hpp"
#include "unit/tools/weft-report/torch_records/torch_dumps.hpp"

namespace weft::report::nccl::test {
namespace {

std::string says(const std::string& host, const std::string& message) {
  return host + ":700:701 [0] NCCL INFO " + message + "\n";
}
std::string two_nodes(const std::string& message) {
  return says("node1", "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0") +
         says("node1", message);
}
std::string channel(const std::string& host, const std::string& carrier) {
  return says(host, "Channel 00/0 : 1[1] -> 8[0] [receive] via " + carrier);
}
std::string start(int pid, const std::string& comm, const std::string& id, const std::string& gpu) {
  return "node1:" + std::to_string(pid) + ":1 [0] NCCL INFO ncclCommInitRank comm " + comm +
         " rank 0 nranks 2 cudaDev " + gpu + " commId " + id + " - Init START\n";
}
/// The same with the line that ends it.
std::string complete(const std::string& started) {
  std::string ended = started;
  ended.replace(ended.find("Init START"), 10, "Init COMPLETE");
  return started + ended;
}
std::string failed(const std::string& local, const std::string& remote) {
  return "node1:700:701 [0] misc/ibvwrap.cc:307 NCCL WARN Call to ibv_modify_qp failed with 110 Connection "
         "timed out, on dev "
         "mlx5_2:1, curr state INIT, next state RTR, local GID index 3, local GID " +
         local + ", remote GID " + remote + "\n";
}
std::string port(const std::string& mtu) {
  return "hca_id: mlx5_0\n\tactive_mtu:\t" + mtu + "\n\tlink_layer:\tInfiniBand\n";
}
std::string test_rank(int rank, int pid) {
  return "#  Rank  " + std::to_string(rank) + " Group  0 Pid  " + std::to_string(pid) +
         " on node1 device  0 [0x1a] Some GPU\n";
}

const std::string sockets_with_bridge = "NET/Socket : Using [0]bond0:10.1.0.1<0> [1]br-05ab:172.19.0.1<0>";
const std::string mixed_nics = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.1.0.1<0>";
const std::string retries_exceeded =
    "node1:7:8 [0] net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 10.1.0.2<1> with error 12, opcode "
    "0\n";
const std::string old_plugin = says("node1",
                                    "NET/Plugin: Failed to find ncclNetPlugin symbol (>= v5). ncclNetPlugin "
                                    "symbols v4 and lower are not supported.");
const std::string one_gpu = " nvmlDev 3 busId 1b000";
const std::string other_gpu = " nvmlDev 4 busId 1c000";
const std::string shm = "NCCL INFO Channel 00 : 0[3] -> 1[4] via SHM/direct/direct\n";

std::string timed_out(int rank, int number, const std::string& operation, int elements) {
  const std::string count = std::to_string(elements);
  return "[rank" + std::to_string(rank) + "]:[E ProcessGroupNCCL.cpp:616] [Rank " + std::to_string(rank) +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + std::to_string(number) +
         ", OpType=" + operation + ", NumelIn=" + count + ", NumelOut=" + count +
         ", Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n";
}
std::string progress(int rank, int number, int enqueued, int completed) {
  return "[rank" + std::to_string(rank) +
         "]:[E ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank " + std::to_string(rank) +
         "] Exception (either an error or timeout) detected by watchdog at work: " + std::to_string(number) +
         ", last enqueued NCCL work: " + std::to_string(enqueued) +
         ", last completed NCCL work: " + std::to_string(completed) + ".\n";
}
std::string heartbeat(int rank) {
  return "[rank" + std::to_string(rank) + "]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank " +
         std::to_string(rank) +
         "] Heartbeat monitor timed out! Process will be terminated after dumping debug info. "
         "workMetaList_.size()=3\n";
}

std::string call(int pid, const std::string& comm, const std::string& count_and_more,
                 const std::string& number = "1a") {
  return "node1:" + std::to_string(pid) + ":1 [0] NCCL INFO AllReduce: opCount " + number +
         " sendbuff 0x7f00 recvbuff 0x7f00 count " + count_and_more + " comm " + comm +
         " [nranks=2] stream 0x5580\n";
}
/// Two processes in one communicator, as each calls it.
std::string calls_of_two(const std::string& one, const std::string& other) {
  return start(7, "0xa", "0x11", "0") + start(8, "0xb", "0x11", "1") + one + other;
}
const std::string port_line = "NET/IB: [0] mlx5_0:mlx5_0:1/IB provider=Mlx5 speed=";
const std::string port_rest = " context=0x55aa pciPath=/sys/devices/pci0000:15 ar=1";
const std::string timings = "Init timings - ncclCommInitRank: rank 0 nranks 16 total ";
const std::string timings_rest =
    " (kernels 0.10, alloc 0.20, bootstrap 4.00, allgathers 0.10, topo 0.20, graphs 0.10, connections 0.20, "
    "rest 0.30)";
const std::string watchdog =
    "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=27, OpType=ALLREDUCE)\n";

/// Dumps of two ranks. Each has an all_reduce of that number and tensor; one above 1 has not ended.
std::string torch_job(const std::vector<std::pair<std::int64_t, std::string>>& ranks) {
  std::string all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& [number, tensor] = ranks[rank];
    const auto state = number > 1 ? torch_records::TorchState::started : torch_records::TorchState::completed;
    all +=
        "=== record\n" +
        weft::test::torch_json(static_cast<int>(rank), 2, {weft::test::torch_entry(number, tensor, state)}) +
        "\n";
  }
  return all;
}

}  // namespace

const std::vector<RuleExample>& job_examples() {
  static const std::vector<RuleExample> all{
      {"wrong-interface", says("node1", sockets_with_bridge),
       says("node1", "NET/Socket : Using [0]bond0:10.1.0.1<0> [1]bridge0:10.2.0.1<0>")},
      {"wrong-interface", two_nodes("Bootstrap : Using lo:127.0.0.1<0>"),
       says("node1", "Bootstrap : Using lo:127.0.0.1<0>")},
      {"wrong-interface",
       says("node1", "Bootstrap: Using eth0:10.1.0.1<0>") +
           says("node2", "Bootstrap: Using docker0:172.17.0.1<0>"),
       says("node1", "Bootstrap: Using eth0:10.1.0.1<0>") +
           says("node2", "Bootstrap: Using eth1:10.1.0.2<0>")},
      {"wrong-interface", says("node1", sockets_with_bridge),
       says("node1", "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0") +
           says("node1", sockets_with_bridge)},
      {"wrong-interface", says("node1", sockets_with_bridge) + channel("node1", "NET/Socket/1"),
       says("node1", sockets_with_bridge) + channel("node1", "P2P/CUMEM")},
      {"net-fallback-socket",
       says("node1", "Failed to open libibverbs.so[.1]") +
           says("node1", "NET/Socket : Using [0]ib0:10.1.0.1<0>"),
       says("node1", "Failed to open libibverbs.so[.1]") +
           says("node1", "NET/Socket : Using [0]eth0:10.1.0.1<0>")},
      {"net-fallback-socket",
       says("node1", "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.1.0.1<0>") +
           says("node1", "Using network IB") + says("node2", "Using network Socket"),
       says("node1", "Using network Socket") + says("node2", "Using network Socket")},
      {"net-fallback-socket",
       says("node1", "NCCL_IB_DISABLE set by environment to 1.") + two_nodes("Using network Socket"),
       says("node1", "NCCL_IB_DISABLE set by environment to 0.") + two_nodes("Using network Socket")},
      {"gdr-disabled", says("node1", "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"),
       says("node1", "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'") +
           says("node1", "NET/IB : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'")},
      {"gdr-disabled", channel("node1", "NET/IB/0"), channel("node1", "NET/Socket/0")},
      {"gdr-disabled", channel("node1", "NET/IB/0/GDRDMA") + channel("node2", "NET/IB/0"),
       channel("node1", "NET/IB/0/GDRDMA") + channel("node1", "NET/IB/0") +
           channel("node2", "NET/IB/0/GDRDMA")},
      {"gdr-distance",
       says("node1", "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'") + channel("node1", "NET/IB/0"),
       says("node1", "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'") +
           channel("node1", "NET/IB/0/GDRDMA")},
      {"env-mismatch",
       says("node1", "NCCL_PROTO set by environment to Simple") +
           says("node2", "NCCL_PROTO set by environment to LL"),
       says("node1", "NCCL_SOCKET_IFNAME set by environment to eth0") +
           says("node2", "NCCL_SOCKET_IFNAME set by environment to eth1")},
      {"version-mismatch", "nvidia-nccl-cu12==2.20.5\nnvidia-nccl-cu12==2.19.3\n",
       "nvidia-nccl-cu11==2.14.3\nnvidia-nccl-cu12==2.19.3\n"},
      {"version-mismatch",
       says("node1", "NCCL version 2.20.5+cuda12.4") + says("node2", "NCCL version 2.19.3+cuda12.3"),
       says("node1", "NCCL version 2.20.5+cuda12.4") + says("node2", "NCCL version 2.20.5+cuda12.4")},
      {"version-mismatch", "NCCL version 2.20.5+cuda12.4\nNCCL version 2.21.5+cuda12.4\n",
       "NCCL version 2.20.5+cuda11.8\nNCCL version 2.20.5+cuda12.4\n"},
      {"driver-too-old", says("node1", "cudaDriverVersion 11040") + "NCCL version 2.20.5+cuda12.4\n",
       says("node1", "cudaDriverVersion 12020") + "NCCL version 2.20.5+cuda12.4\n"},
      {"roce-gid", failed("fe80::1", "fe80::2"), failed("::ffff:10.1.2.1", "::ffff:10.1.2.2")},
      {"rail-cross-nic", failed("::ffff:10.1.2.1", "::ffff:10.1.3.1"),
       failed("::ffff:10.1.2.1", "::ffff:10.1.2.2")},
      {"fabric-unreachable", failed("::ffff:10.1.2.1", "::ffff:10.1.2.2"),
       failed("::ffff:10.1.2.1", "::ffff:10.1.3.1")},
      {"process-group-init-twice",
       start(7, "0xa", "0x11", "0") +
           "node1:7:1 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE\n" +
           start(7, "0xb", "0x11", "0"),
       start(7, "0xa", "0x11", "0") +
           "node1:7:1 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE\n" +
           start(7, "0xb", "0x22", "0") + start(8, "0xa", "0x11", "0")},
      {"mtu-mismatch", port("4096 (5)") + port("1024 (3)"), port("4096 (5)") + port("4096 (5)")},
      {"mtu-mismatch",
       "2: eth0: <BROADCAST,UP> mtu 9000 qdisc mq\n2: eth0: <BROADCAST,UP> mtu 1500 qdisc mq\n",
       "2: eth0: <BROADCAST,UP> mtu 9000 qdisc mq\n3: docker0: <UP> mtu 1500 qdisc mq\n"},
      {"gdr-distance", says("node1", "GPU Direct RDMA Disabled for GPU 1b000 / HCA 1 (distance 5 > 4)"),
       says("node1", "GPU Direct RDMA Disabled for GPU 1b000 / HCA 1 (distance 5 > 4)") +
           says("node1", "GPU Direct RDMA Enabled for GPU 1b000 / HCA 0 (distance 2 <= 4), read 0")},
      {"wrong-hca", says("node1", mixed_nics) + retries_exceeded, says("node1", mixed_nics)},
      {"nics-differ",
       says("node1", "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:1") +
           says("node2", "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:1"),
       says("node1", "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:1") +
           says("node2", "NET/IB : Using [0]mlx5_4:1/IB [RO]; OOB eth0:1")},
      {"ofi-missing", "FI_PROVIDER=efa\n" + says("node1", "Using network Socket"),
       "FI_PROVIDER=efa\n" + says("node1", "Using network AWS Libfabric")},
      {"plugin-mismatch",
       says("node1", "NCCL_NET_PLUGIN set by environment to ofi") + old_plugin +
           says("node1", "Using network Socket"),
       old_plugin + says("node1", "Using network Socket")},
      {"plugin-mismatch", says("node1", "Using network AWS Libfabric") + says("node2", "Using network IB"),
       says("node1", "Using network AWS Libfabric") + says("node2", "Using network AWS Libfabric")},
      {"p2p-visible-devices",
       start(7, "0xa", "0x11", "0" + one_gpu) + start(8, "0xb", "0x11", "0" + other_gpu) + "node1:7:1 [0] " +
           shm + "node1:8:1 [0] " + shm,
       start(7, "0xa", "0x11", "3" + one_gpu) + start(8, "0xb", "0x11", "4" + other_gpu) + "node1:7:1 [3] " +
           shm + "node1:8:1 [4] " + shm},
      {"rank-ended", "weft-launch: rank 2 (pid 7) was killed by signal 9\n",
       "weft-launch: rank 2 (pid 7) was killed by signal 15\n"},
      {"tests-built-without-mpi", test_rank(0, 700) + test_rank(0, 701),
       test_rank(0, 700) + test_rank(1, 701)},
      {"setting-left-over", "mpirun -np 2 -x NCCL_P2P_DISABLE=1 ./train\n",
       "you can set NCCL_P2P_DISABLE=1 to go on\n"},
      {"setting-left-over", says("node1", "NCCL_P2P_DISABLE set by environment to 1."),
       says("node1", "NCCL_P2P_DISABLE set by environment to 0.")},
      {"mismatched-collective",
       calls_of_two(call(7, "0xa", "8 datatype 7 op 0 root 0"), call(8, "0xb", "16 datatype 7 op 0 root 0")),
       calls_of_two(call(7, "0xa", "8 datatype 7 op 0 root 0"), call(8, "0xb", "8 datatype 7 op 0 root 0"))},
      {"rank-behind",
       calls_of_two(
           call(7, "0xa", "8 datatype 7 op 0 root 0") + call(7, "0xa", "8 datatype 7 op 0 root 0", "1b"),
           call(8, "0xb", "8 datatype 7 op 0 root 0")) +
           watchdog,
       calls_of_two(
           call(7, "0xa", "8 datatype 7 op 0 root 0") + call(7, "0xa", "8 datatype 7 op 0 root 0", "1b"),
           call(8, "0xb", "8 datatype 7 op 0 root 0"))},
      {"mismatched-collective", torch_job({{1, "4 Float"}, {1, "5 Float"}}),
       torch_job({{1, "4 Float"}, {1, "4 Float"}}), true},
      {"rank-behind", torch_job({{2, "4 Float"}, {1, "4 Float"}}),
       torch_job({{2, "4 Float"}, {2, "4 Float"}}), true},
      {"rank-left-no-record", torch_job({{1, "4 Float"}}), torch_job({{1, "4 Float"}, {1, "4 Float"}}), true},
      {"collective-stuck", torch_job({{2, "4 Float"}, {2, "4 Float"}}),
       torch_job({{1, "4 Float"}, {1, "4 Float"}}), true},
      {"records-overwritten", torch_job({{9, "4 Float"}, {1, "4 Float"}}),
       torch_job({{2, "4 Float"}, {1, "4 Float"}}), true},
      {"gdr-disabled",
       two_nodes("Using network IB") + says("node1", "Connected all rings, use ring PXN 0 GDR 0"),
       two_nodes("Using network IB") + says("node1", "Connected all rings, use ring PXN 0 GDR 1")},
      {"gdr-disabled",
       two_nodes("Using network IB") + says("node1", "Connected all rings, use ring PXN 0 GDR 0"),
       two_nodes("Using network Socket") + says("node1", "Connected all rings, use ring PXN 0 GDR 0")},
      {"nics-differ", says("node1", "Local Net device counts across ranks: min 7 max 8"),
       says("node1", "Local Net device counts across ranks: min 8 max 8")},
      {"nics-differ",
       says("node1", port_line + "400000" + port_rest) + says("node2", port_line + "200000" + port_rest),
       says("node1", port_line + "400000" + port_rest) + says("node2", port_line + "400000" + port_rest)},
      {"slow-start", says("node1", timings + "75.20" + timings_rest),
       says("node1", timings + "5.20" + timings_rest)},
      {"wrong-interface",
       says("node1", "Bootstrap : Using eth1:169.254.0.1<0>") +
           says("node2", "Bootstrap : Using eth1:169.254.0.1<0>"),
       says("node1", "Bootstrap : Using eth1:169.254.0.1<0>") +
           says("node2", "Bootstrap : Using eth1:169.254.0.2<0>")},
      {"wrong-hca", says("node1", "NCCL_IB_HCA set to mlx5_9") + says("node1", "NET/IB : No device found."),
       says("node1", "NET/IB : No device found.")},
      {"net-fallback-socket", two_nodes("NCCL_IB_HCA set to mlx5_9") + says("node1", "Using network Socket"),
       two_nodes("Using network Socket")},
      {"mismatched-collective", timed_out(0, 9, "ALLREDUCE", 4) + timed_out(1, 9, "ALLREDUCE", 5),
       timed_out(0, 9, "ALLREDUCE", 4) + timed_out(1, 9, "ALLREDUCE", 4)},
      {"mismatched-collective", timed_out(0, 9, "ALLREDUCE", 4) + timed_out(1, 7, "BROADCAST", 5),
       timed_out(0, 9, "ALLREDUCE", 4) + timed_out(1, 9, "ALLREDUCE", 4)},
      {"rank-behind", timed_out(0, 9, "ALLREDUCE", 4) + progress(0, 9, 9, 8) + progress(1, 8, 8, 8),
       timed_out(0, 9, "ALLREDUCE", 4) + progress(0, 9, 9, 8) + progress(1, 9, 9, 8)},
      {"rank-behind", timed_out(0, 9, "ALLREDUCE", 4) + timed_out(2, 9, "ALLREDUCE", 4),
       timed_out(0, 9, "ALLREDUCE", 4) + timed_out(1, 9, "ALLREDUCE", 4)},
      {"collective-stuck", timed_out(0, 9, "ALLREDUCE", 4) + timed_out(1, 9, "ALLREDUCE", 4),
       timed_out(0, 9, "ALLREDUCE", 4) + timed_out(2, 9, "ALLREDUCE", 4)},
      {"rank-behind", heartbeat(1) + heartbeat(2), heartbeat(0) + heartbeat(1)},
      {"watchdog-timeout", heartbeat(0) + heartbeat(1), "[rank0]: Heartbeat monitor begins\n"},
      {"init-store-timeout",
       "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving "
       "ncclUniqueId from [0] via "
       "c10d key-value store by key '0', but store->get('0') got error: Socket Timeout\n",
       "[rank3]: [3] is setting up a communicator\n"},
      {"start-unfinished", start(7, "0xa", "0x11", "0"), complete(start(7, "0xa", "0x11", "0"))},
      {"nvls-fabricmanager",
       start(7, "0xa", "0x11", "0") +
           says("node1", "NVLS Bind mem 0xac UC handle 0x1 MC handle 0x2 size 1073741824"),
       start(7, "0xa", "0x11", "0")},
      {"plugin-settings",
       says("node1", "NET/gIB : Initializing gIB v1.1.0") + says("node1", "Failed to open libibverbs.so[.1]"),
       says("node1", "NET/gIB : Initializing gIB v1.1.0") +
           says("node1", "Failed to open libibverbs.so[.1]") + says("node1", "Using network gIB")},
      {"other-library", says("node1", "RCCL version : 2.22.3-HEAD:271856d"),
       says("node1", "NCCL version 2.22.3+cuda12.4")},
      {"unexplained-warning", "node1:700:701 [0] any.cc:1 NCCL WARN The moon is full\n",
       "node1:700:701 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n"},
  };
  return all;
}

}  // namespace weft::report::nccl::test
