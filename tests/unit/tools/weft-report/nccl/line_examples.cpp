#include "unit/tools/weft-report/nccl/rule_examples.hpp"

namespace weft::report::nccl::test {
namespace {

std::string warn(const std::string& message) {
  return "[2026-03-01 10:00:00] node1:700:701 [2] transport/any.cc:12 NCCL WARN " + message + "\n";
}
std::string info(const std::string& message) {
  return "node1:700:701 [2] NCCL INFO " + message + "\n";
}
const std::string roce = info("NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.1.0.1<0>");
const std::string infiniband = info("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.1.0.1<0>");
const std::string started = info("cudaDriverVersion 12080");
const std::string ifname = info("NCCL_SOCKET_IFNAME set by environment to eth7");
const std::string several_nodes = info("comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0");
const std::string topology_file = info("NCCL_TOPO_FILE set by environment to /opt/t.xml");
const std::string graph_file = info("NCCL_GRAPH_FILE set by environment to /opt/graph.xml");

std::string completion(const std::string& status) {
  return warn("NET/IB : Got completion from peer 10.1.0.2<5001> with " + status);
}
std::string modify(const std::string& why) {
  return warn("Call to ibv_modify_qp failed with " + why);
}

std::vector<RuleExample> pcie() {
  return {
      {"acs-iommu", completion("error 4, opcode 1, len 0, vendor err 81"),
       completion("error 5, opcode 1, len 0, vendor err 244")},
      {"acs-iommu", completion("status=4 opcode=2 len=0 vendor err 81 (Send)"),
       completion("status=5 opcode=2 len=0 vendor err 249 (Send)")},
      {"acs-iommu", completion("status=IBV_WC_LOC_PROT_ERR opcode=IBV_WC_SEND"),
       completion("status=IBV_WC_WR_FLUSH_ERR opcode=IBV_WC_SEND")},
      {"acs-iommu", completion("status=local protection error(4) opcode=SEND(0) vendor_err=81"),
       completion("status=work request flushed(5) opcode=SEND(0) vendor_err=249")},
      {"acs-iommu", "\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+\n",
       "\t\tACSCtl: SrcValid- TransBlk- ReqRedir-\n"},
      {"acs-iommu", "AMD-Vi: Event logged [IO_PAGE_FAULT device=c1:00.0 domain=0x1f]\n",
       "AMD-Vi: Interrupt remapping enabled\n"},
      {"acs-iommu", "DMAR: [DMA Write NO_PASID] Request device [1b:00.0] fault addr 0x7f00\n",
       "DMAR: IOMMU enabled\n"},
  };
}

std::vector<RuleExample> gpus() {
  return {
      {"driver-too-old", warn("Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'"),
       info("cudaDriverVersion 13000")},
      {"driver-too-old", "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n",
       "The NVIDIA driver on your system is 580.65\n"},
      {"driver-too-old",
       warn("Cuda failure 222 'the provided PTX was compiled with an unsupported toolchain.'"),
       "ptxas info: PTX was compiled\n"},
      {"driver-too-old", warn("Cuda failure 804 'forward compatibility was attempted on non supported HW'"),
       "CUDA forward compatibility mode is on\n"},
      {"driver-too-old", warn("Cuda failure 36 'API call is not supported in the installed CUDA driver'"),
       "the installed CUDA driver is 580.65\n"},
      {"driver-too-old",
       warn("Cuda failure 803 'system has unsupported display driver / cuda driver combination'"),
       "display driver 580.65\n"},
      {"duplicate-gpu", warn("Duplicate GPU detected : rank 3 and rank 5 both on CUDA device 1b000"),
       info("NCCL_MULTI_RANK_GPU_ENABLE set by environment to 1.")},
      {"duplicate-gpu",
       warn("Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1"),
       info("comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0")},
      {"gpu-arch-unsupported", warn("Cuda failure 98 'invalid device function'"),
       warn("Cuda failure 101 'invalid device ordinal'")},
      {"gpu-arch-unsupported",
       "UserWarning: GPU with CUDA capability sm_120 is not compatible with the current PyTorch "
       "installation.\n",
       "UserWarning: GPU with CUDA capability sm_120\n"},
      {"duplicate-gpu", "RuntimeError: Duplicated GPU device is not allowed by NCCL. Rank [0] and rank [8]\n",
       "RuntimeError: rank 0 and rank 8\n"},
      {"more-ranks-than-gpus", "torch.AcceleratorError: CUDA error: invalid device ordinal\n",
       "torch.AcceleratorError: CUDA error: invalid argument\n"},
      {"more-ranks-than-gpus", "node1: Test CUDA failure common.cu:941 'invalid device ordinal'\n",
       "node1: Test CUDA failure common.cu:941 'invalid argument'\n"},
      {"gpu-hardware", "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution\n",
       "NVLink errors: 0 correctable\n"},
      {"gpu-arch-unsupported", "CUDA error: no kernel image is available for execution on the device\n",
       "CUDA error: no CUDA-capable device is detected\n"},
      {"fabricmanager-down", warn("Cuda failure 802 'system not yet initialized'"),
       warn("Cuda failure 3 'initialization error'")},
      {"fabricmanager-down", "cuInit failed: CUDA_ERROR_SYSTEM_NOT_READY\n",
       "cuInit failed: CUDA_ERROR_NO_DEVICE\n"},
      {"nvls-fabricmanager",
       "node1:700:701 [2] transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'\n",
       "node1:700:701 [2] transport/nvls.cc:244 NCCL WARN Cuda failure 2 'out of memory'\n"},
      {"nvls-fabricmanager",
       warn("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401"),
       info("NVLS multicast support is available on dev 2")},
      {"imex-missing",
       warn("MNNVL (cliqueSize 16) is available but not working on this system. Check the IMEX channel "
            "configuration"),
       info("MNNVL 1 cliqueId 1 cliqueSize 16 cliqueRank 0")},
      {"p2p-nvlink-broken",
       warn("P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case"),
       info("NCCL_IGNORE_DISABLED_P2P set by environment to 1.")},
      {"p2p-visible-devices", info("Could not enable P2P between dev 0(=1b000) and dev 1(=1c000)"),
       info("Check P2P Type isAllDirectP2p 1 directMode 0")},
      {"p2p-visible-devices", warn("failed to open CUDA IPC handle : 101 invalid device ordinal"),
       warn("failed to open CUDA IPC handle : 201 invalid resource handle")},
      {"gpu-hardware", "NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.\n",
       "NVRM: GPU 0000:1b:00.0: RmInitAdapter\n"},
      {"gpu-hardware", warn("Cuda failure 214 'uncorrectable ECC error encountered'"),
       "ECC errors: 0 correctable\n"},
      {"gpu-hardware", "NVRM: Xid (PCI:0000:1b:00): 79, pid=700\n",
       "NVRM: loading NVIDIA UNIX Open Kernel Module\n"},
      {"cuda-out-of-memory", warn("Cuda failure 2 'out of memory'"), info("Memory used 2.1 GB")},
      {"cuda-error-in-kernel", warn("Cuda failure 700 'an illegal memory access was encountered'"),
       warn("Cuda failure 400 'invalid resource handle'")},
      {"cuda-error-in-kernel", warn("Cuda failure 719 'unspecified launch failure'"),
       info("launch mode parallel")},
      {"cuda-error-in-kernel", "CUDA error: device-side assert triggered\n",
       "CUDA error: assertion in host code\n"},
      {"cuda-out-of-memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
       "Tried to allocate 2.00 GiB.\n"},
      {"cuda-out-of-memory", "RuntimeError: CUDA error: out of memory\n", "RuntimeError: out of memory\n"},
      {"cuda-initialization", "RuntimeError: CUDA error: initialization error\n", "initialization is done\n"},
      {"cuda-initialization", "CUDA error: all CUDA-capable devices are busy or unavailable\n",
       "all devices are idle\n"},
      {"cuda-initialization", "RuntimeError: Cannot re-initialize CUDA in forked subprocess.\n",
       "forked subprocess\n"},
      {"unsupported-type", warn("FP8 reduction support begins with sm90 capable devices."),
       info("FP8 reduction")},
  };
}

std::vector<RuleExample> host() {
  return {
      {"shm-too-small", warn("Call to posix_fallocate failed: No space left on device"),
       warn("Call to posix_fallocate failed: Interrupted system call")},
      {"shm-too-small",
       warn("Error: failed to extend /dev/shm/nccl-Gq1 to 33030148 bytes, error: No space left on device "
            "(28)"),
       warn("Error: failed to extend /dev/shm/nccl-Gq1 to 33030148 bytes, error: Permission denied (13)")},
      {"shm-too-small", warn("Error while creating shared memory segment nccl-shm-recv-1 (size 9637888)"),
       info("Channel 00 : 0[0] -> 1[1] via SHM/direct")},
      {"shm-too-small",
       "Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
       "(shm).\n",
       "shared memory (shm) of 64 GB\n"},
      {"shm-too-small", "train.sh: line 3: 700 Bus error (core dumped)\n", "train.sh: line 3: 700 Killed\n"},
      {"memlock-limit", warn("Call to ibv_reg_mr failed with error Cannot allocate memory"),
       warn("Call to ibv_reg_mr failed with error Bad address")},
      {"memlock-limit", warn("Call to ibv_create_qp failed with error unknown errno 12"),
       warn("Call to ibv_create_qp failed with error unknown errno 22")},
      {"host-memory-exhausted", "kernel: Out of memory: Killed process 700 (python)\n",
       "Killed process 700\n"},
      {"host-memory-exhausted", "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n",
       "StepId=7.0 ended\n"},
      {"host-memory-exhausted", "kernel: oom-kill:constraint=CONSTRAINT_MEMCG,task=python\n",
       "oom score 7\n"},
      {"host-memory-exhausted", "srun: error: node1: task 2: Out Of Memory\n",
       "srun: error: node1: task 2: Killed\n"},
      {"driver-library-missing", "Failed to initialize NVML: Driver/library version mismatch\n",
       "NVML is initialized\n"},
      {"driver-library-missing", "Failed to initialize NVML: Unknown Error\n", "NVML is initialized\n"},
      {"open-files-limit", warn("Call to socket failed : Too many open files"), info("open files 65536")},
      {"cumem-container",
       info("cuMem host allocations do not appear to be working; falling back to a /dev/shm/ based "
            "implementation."),
       info("NCCL_CUMEM_HOST_ENABLE set by environment to 0.")},
      {"affinity-empty",
       info("ncclTopoGetCpuAffinity: Affinity for GPU 0 is empty, ignoring. (GPU affinity = 0-31 ; CPU "
            "affinity = 64-95)."),
       info("ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-31. (GPU affinity = 0-31 ; CPU affinity = "
            "0-95).")},
      {"library-missing",
       "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory\n",
       info("NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared "
            "object file")},
      {"library-missing",
       "error while loading shared libraries: libnccl.so.2: failed to map segment from shared object: "
       "Operation not permitted\n",
       "error while loading shared libraries: libfoo.so.2: failed to map segment from shared object\n"},
  };
}

std::vector<RuleExample> interfaces() {
  return {
      {"port-in-use",
       "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n",
       "The server socket listens on [::]:29500\n"},
      {"port-in-use", "RuntimeError: bind failed with EADDRINUSE\n", "bind is done\n"},
      {"ifname-not-found", "RuntimeError: [enforce fail at device.cc:83] Unable to find address for: eth7\n",
       "address of eth7\n"},
      {"connection-blocked",
       "DistNetworkError: The client socket has timed out after 60000ms while trying to connect\n",
       "The client socket is connected\n"},
      {"connection-blocked",
       "The client socket has failed to connect to any network address of (node1, 29500).\n",
       "[W socket.cpp:601] The client socket has failed to connect to [node1]:29500 (errno: 97).\n"},
      {"init-store-timeout",
       "DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.\n",
       "2/2 clients joined.\n"},
      {"ifname-not-found", ifname + warn("Bootstrap : no socket interface found"),
       warn("Bootstrap : no socket interface found")},
      {"ifname-not-found", ifname + warn("NET/Socket : no interface found"),
       warn("NET/Socket : no interface found")},
      {"ifname-not-found", ifname + warn("NET/IB : No IP interface found."),
       warn("NET/IB : No IP interface found.")},
      {"ifname-not-found", ifname + warn("NET/Socket : No usable listening interface found"), ifname},
      {"no-ip-interface", started + warn("Bootstrap : no socket interface found"),
       ifname + warn("Bootstrap : no socket interface found")},
      {"no-ip-interface", started + warn("NET/Socket : no interface found"),
       ifname + warn("NET/Socket : no interface found")},
      {"no-ip-interface", started + warn("NET/IB : No IP interface found."),
       info("Bootstrap: Using eth0:10.1.0.1<0>")},
      {"no-ip-interface", started + warn("NET/Socket : No usable listening interface found"),
       info("NET/Socket : Using [0]eth0:10.1.0.1<0>")},
      {"fabric-unreachable", warn("socketStartConnect: Connect to 10.1.0.2<4711> failed : No route to host"),
       warn("socketStartConnect: Connect to 10.1.0.2<4711> failed : Connection refused")},
      {"fabric-unreachable",
       warn("socketStartConnect: Connect to 10.1.0.2<4711> failed : Network is unreachable"),
       info("socketPollConnect: connect to 10.1.0.2<4711> returned Network is unreachable, retrying (1/34) "
            "after sleep for 100 msec")},
      {"fabric-unreachable",
       warn("socketStartConnect: Connect to 10.1.0.2<4711> failed : Connection timed out"),
       info("connect to 10.1.0.2<4711> returned Connection timed out, retrying (1/34)")},
      {"wrong-interface",
       several_nodes + warn("socketStartConnect: Connect to 127.0.1.1<4711> failed : Connection refused"),
       warn("socketStartConnect: Connect to 127.0.1.1<4711> failed : Connection refused")},
      {"wrong-interface",
       several_nodes + warn("socketStartConnect: Connect to 172.17.0.1<4711> failed : Connection refused"),
       several_nodes + warn("socketStartConnect: Connect to 172.27.0.1<4711> failed : Connection refused")},
      {"connection-blocked",
       warn("socketPollConnect: connect returned Connection refused, exceeded error retry count (35)"),
       info("socketPollConnect: connect returned Connection refused, retrying (1/34) after sleep for 100 "
            "msec")},
  };
}

std::vector<RuleExample> rdma() {
  return {
      {"link-flap", warn("NET/IB : Got async event : port error"),
       warn("NET/IB : Got async event : client reregistration")},
      {"link-flap", warn("NET/IB : mlx5_0:1 async fatal event: port error"),
       warn("NET/IB : mlx5_0:1 async fatal event: GID table change")},
      {"link-flap", warn("NET/IB : Got async event : device fatal error"), info("NET/IB : device ready")},
      {"roce-gid", roce + completion("error 12, opcode 0, len 0, vendor err 129"),
       infiniband + completion("error 12, opcode 0, len 0, vendor err 129")},
      {"roce-gid", roce + completion("status=12 opcode=0 len=0 vendor err 129 (Recv)"),
       roce + completion("status=5 opcode=0 len=0 vendor err 249 (Recv)")},
      {"roce-gid", roce + completion("status=retry exceeded(12) opcode=SEND(0) vendor_err=129"),
       roce + completion("status=flushed(5) opcode=SEND(0) vendor_err=249")},
      {"roce-gid", roce + modify("error Connection timed out"),
       roce +
           info("Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, retrying 1/3")},
      {"roce-gid", roce + modify("error Invalid argument"), infiniband + modify("error Invalid argument")},
      {"fabric-unreachable", infiniband + completion("error 12, opcode 0, len 0, vendor err 129"),
       infiniband + completion("error 5, opcode 0, len 0, vendor err 244")},
      {"fabric-unreachable", infiniband + completion("status=12 opcode=0 len=0 vendor err 129 (Recv)"),
       roce + completion("status=12 opcode=0 len=0 vendor err 129 (Recv)")},
      {"fabric-unreachable",
       infiniband + completion("status=retry exceeded(12) opcode=SEND(0) vendor_err=129"), infiniband},
      {"fabric-unreachable", infiniband + modify("error Connection timed out"),
       infiniband + info("Call to ibv_modify_qp failed with 110 Connection timed out, retrying 1/3")},
      {"link-flap", "[  71.2] mlx5_core 0000:1a:00.0 ens1f0np0: Link down\n",
       "[  71.2] mlx5_core 0000:1a:00.0 ens1f0np0: Link up\n"},
      {"rail-cross-nic",
       warn("NET/IB : There are mismatched physical devices between local (mlx5_0) and remote (mlx5_3)."),
       infiniband},
      {"wrong-hca",
       warn("NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [3]mlx5_3:1/RoCE."),
       roce},
      {"wrong-hca", warn("NET/IB : Remote RoCE device is incompatible with the local [0]mlx5_0:1/IB."),
       infiniband},
  };
}

std::vector<RuleExample> plugins() {
  return {
      {"ofi-missing", info("NET/OFI Selected Provider is tcp (found 1 nics)"),
       info("NET/OFI Selected Provider is efa (found 4 nics)")},
      {"ofi-missing", info("NET/OFI Selected Provider is sockets"),
       info("NET/OFI Selected provider is efa, fabric is efa (found 4 nics)")},
      {"ofi-missing", warn("NET/OFI No eligible providers were found"),
       info("NET/OFI Using Libfabric version 1.22")},
      {"ofi-missing", warn("NET/OFI Couldn't find any optimal provider"),
       info("NET/Plugin: Could not find: libnccl-net.so")},
      {"ofi-missing", warn("Error: network AWS Libfabric not found."), info("Using network AWS Libfabric")},
      {"plugin-mismatch", warn("Error: network IBext_v8 not found."),
       warn("Error: network AWS Libfabric not found.")},
      {"plugin-mismatch", info("NET/Plugin : dlerror=/opt/libnccl-net.so: undefined symbol: fi_freeinfo"),
       info("NET/Plugin: Failed to find ncclNetPlugin_v7 symbol.")},
      {"plugin-mismatch", info("NET/Plugin : dlerror=/opt/libnccl-net.so: version `GLIBC_2.38' not found"),
       info("NET/Plugin: Could not find: libnccl-net.so")},
      {"plugin-mismatch",
       info(
           "NET/Plugin: Plugin load returned 2 : /lib/libc.so.6: version `GLIBC_2.32' not found (required by "
           "/opt/libnccl-net.so) : when loading libnccl-net.so"),
       info("NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such "
            "file or directory : when loading libnccl-net.so")},
      {"plugin-mismatch", info("TUNER/Plugin: libnccl-tuner.so: undefined symbol: ncclDebugLog"),
       info("TUNER/Plugin: Failed to find ncclTunerPlugin_v2 symbol, using internal tuner instead.")},
      {"collnet-fallback", warn("Cannot initialize CollNet, using point-to-point network instead"),
       info("CollNet 00/0 : 0 [receive] via COLLNET/SHARP/1/GDRDMA")},
      {"collnet-fallback", "[node1:84 - context.c:705] ERROR SHArP Job init error: No resource\n",
       "[node1:84 - context.c:705] INFO SHArP job (ID: 1) ready\n"},
      {"collnet-fallback", warn("NET/IB : SHARP coll init error: Cannot create SHARP job(-11)"),
       info("SHARP coll initialized")},
  };
}

std::vector<RuleExample> settings() {
  return {
      {"graph-file-leftover", graph_file + warn("XML Import Channel : dev 1 not found."),
       graph_file + info("Search 0 : 12 channels loaded from XML graph")},
      {"graph-file-leftover", warn("XML Import Channel : dev 1 not found."),
       warn("XML Export Channel : rank 1 not found.")},
      {"graph-file-leftover", warn("XML Graph has wrong version 2, 1 needed"), graph_file},
      {"graph-file-leftover", warn("Could not open XML graph file /opt/g.xml : No such file or directory"),
       info("NCCL_GRAPH_DUMP_FILE set by environment to g.xml")},
      {"topology-file-bad", warn("XML Topology has wrong version 2, 1 needed"),
       info("NCCL_TOPO_FILE set by environment to /opt/topo.xml")},
      {"topology-file-bad",
       topology_file + info("Could not open XML topology file /opt/t.xml : No such file or directory"),
       info("Could not open XML topology file /opt/t.xml : No such file or directory")},
      {"topology-file-bad", warn("Could not open XML topology file /opt/t.xml : No such file or directory"),
       info("Could not open XML topology file /var/run/nvidia-topologyd/virtualTopology.xml : No such file "
            "or directory")},
      {"topology-file-bad", warn("XML Parse : Unexpected EOF"), info("Loading topology file /opt/topo.xml")},
      {"topology-file-bad", warn("XML Mismatch : pci / cpu"), info("XML topology loaded")},
      {"topology-file-bad", warn("Attribute busid of node pci not found"),
       info("Attribute coll of node net not found")},
      {"topology-file-bad",
       topology_file + "node1:7:8 [0] graph/topo.cc:32 NCCL WARN Could not find node of type 1 id 7\n",
       "node1:7:8 [0] graph/topo.cc:32 NCCL WARN Could not find node of type 1 id 7\n"},
      {"topology-vm",
       info("Pattern 4, crossNic 0, nChannels 1, bw 0.240000/0.240000, type PHB/PHB, sameChannels 1"),
       info("Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 0")},
      {"topology-vm", info("+ PCI[0.2] - PCI/0-10000 (1af41100)"),
       info("+ PCI[12.0] - PCI/0-10000 (1af41100)")},
      {"topology-vm",
       "<pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"2.5 GT/s PCIe\" link_width=\"1\">\n",
       "<pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"2.5 GT/s PCIe\" link_width=\"16\">\n"},
      {"invalid-setting", info("Invalid value yes for NCCL_IB_DISABLE, using default 0."),
       info("NCCL_IB_DISABLE set by environment to 0.")},
      {"algorithm-unavailable",
       warn("Error : no algorithm/protocol available for function AllGather with datatype ncclInt8."),
       info("NCCL_BUFFSIZE set by environment to 4194304.")},
  };
}

std::vector<RuleExample> calls() {
  return {
      {"mismatched-collective",
       "init.cc:1247 NCCL WARN Mismatched collective detected, please check your collective calls at and "
       "around rank 39.\n",
       info("AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x1 count 8")},
      {"mismatched-collective",
       "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running ALLREDUCE\n",
       "Rank 0 is running ALLREDUCE\n"},
      {"mismatched-collective",
       "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 61 params, while rank 1 has "
       "inconsistent 60 params.\n",
       "DDP has 61 params\n"},
      {"rank-behind", "RuntimeError: [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 30000 ms\n",
       "[Rank 0]: monitoredBarrier passed\n"},
      {"mismatched-collective",
       warn("NET/Socket : peer 10.1.0.2<5001> message truncated : receiving 8 bytes instead of 4."),
       info("message of 8 bytes")},
      {"version-mismatch",
       warn("Mismatched NCCL version detected : rank 0 version 22005 rank 1 version 21903"),
       info("NCCL version 2.20.5+cuda12.4")},
      {"version-mismatch", "ImportError: /v/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister\n",
       "ImportError: /v/torch/lib/libtorch_cuda.so: undefined symbol: cublasLtCreate\n"},
      {"version-mismatch", "symbol lookup error: ./train: undefined symbol: ncclMemAlloc\n",
       "symbol lookup error: ./train: undefined symbol: cudaMemAlloc\n"},
      {"nonblocking-misuse",
       warn("Attempt to use communicator before the previous operation returned ncclSuccess"),
       info("Comm config Blocking set to 0")},
      {"watchdog-timeout", "[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17)\n",
       "[rank3]:[I] Watchdog started\n"},
      {"peer-lost", warn("socketProgress: Connection closed by remote peer node2<5001>"),
       info("[Service thread] Connection closed by remote peer node2<5001>")},
      {"peer-lost", warn("Call to recv from 10.1.0.2<5001> failed : Connection reset by peer"),
       info("peer reset")},
      {"peer-lost",
       "node1: Test NCCL failure common.cu:401 'remote process exited or there was a network error / '\n",
       "node1: Test NCCL success\n"},
      {"wrong-results", "# Out of bounds values : 3 FAILED\n", "# Out of bounds values : 0 OK\n"},
  };
}

}  // namespace

const std::vector<RuleExample>& line_examples() {
  static const std::vector<RuleExample> all = [] {
    std::vector<RuleExample> joined;
    for (const auto& part : {pcie(), gpus(), host(), interfaces(), rdma(), plugins(), settings(), calls()})
      joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  }();
  return all;
}

}  // namespace weft::report::nccl::test
