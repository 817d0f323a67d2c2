#include "report/nccl/rules/rules.hpp"

#include <algorithm>

#include "weft/core/error.hpp"

namespace weft::report::nccl {
namespace {

using enum Severity;

constexpr Cause cause_table[] = {
    {"acs-iommu", critical,
     "PCIe traffic between GPU and NIC, or between GPUs, is redirected (ACS) or blocked (IOMMU)",
     "switch ACS off on the PCIe bridges (setpci, or in the BIOS) and boot with iommu=pt",
     "in a virtual machine ACS has to stay on: use ATS, or a NIC and GPU that the provider pairs"},
    {"affinity-empty", warning, "the launcher binds a process to cores that are not near its GPU",
     "bind by NUMA node (mpirun --bind-to numa, srun --cpu-bind), or set NCCL_IGNORE_CPU_AFFINITY=1",
     "the machine has one NUMA node"},
    {"algorithm-unavailable", critical, "NCCL_ALGO or NCCL_PROTO leave no algorithm for a collective",
     "unset NCCL_ALGO and NCCL_PROTO", "a tuner plug-in, not the environment, disabled them"},
    {"collnet-fallback", notice,
     "CollNet (SHARP) was asked for and could not be set up; the job runs without it",
     "unset NCCL_COLLNET_ENABLE, or have the SHARP aggregation manager free or allow a job", ""},
    {"connection-blocked", critical, "a process cannot connect to another one",
     "see whether the other process lives, whether a firewall lets any port through between the nodes, and "
     "whether "
     "NCCL_SOCKET_IFNAME names the interface that joins them",
     "the other process failed before: then its error is the cause"},
    {"cuda-error-in-kernel", critical, "a CUDA kernel failed; NCCL only reports the error that it met",
     "run with CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer to find the kernel, and look for Xid lines in "
     "dmesg",
     ""},
    {"cuda-out-of-memory", critical, "a GPU has no memory left for NCCL's buffers",
     "leave NCCL about 1 GB of each GPU: a smaller batch, fewer communicators, or a smaller NCCL_BUFFSIZE",
     ""},
    {"cumem-container", warning,
     "the container forbids NUMA calls, so NCCL falls back to /dev/shm for host memory",
     "start the container with --cap-add SYS_NICE, or set NCCL_CUMEM_HOST_ENABLE=0", ""},
    {"driver-too-old", critical, "the NVIDIA driver is older than the CUDA that NCCL was built with",
     "update the driver, or use a build for an older CUDA",
     "the CUDA forward compatibility package is installed"},
    {"duplicate-gpu", critical, "two ranks use the same GPU",
     "choose the device by the local rank: cudaSetDevice(local_rank), torch.cuda.set_device(LOCAL_RANK)",
     "ranks share a GPU on purpose: NCCL_MULTI_RANK_GPU_ENABLE=1 since NCCL 2.30"},
    {"env-mismatch", warning, "a setting of NCCL differs between hosts",
     "give all ranks the same environment (mpirun -x, or the same nccl.conf on every host)",
     "the logs are of several jobs"},
    {"fabric-unreachable", critical, "data does not get through the network between two nodes",
     "test the pair of ports with ib_write_bw, then look at cables, routes, partition keys and the subnet "
     "manager",
     ""},
    {"fabricmanager-down", critical, "the NVLink switches are not set up: nvidia-fabricmanager does not run",
     "start nvidia-fabricmanager in the version of the driver (systemctl status nvidia-fabricmanager)",
     "the machine has no NVSwitch: then look at the driver"},
    {"gdr-disabled", warning,
     "GPUDirect RDMA is off: data passes through host memory on its way to the network",
     "load nvidia_peermem (or use DMA-BUF: kernel 5.12 and open driver), with NCCL 2.23.4 or newer for "
     "nvidia-peermem",
     "the GPUs or the virtual machine do not support GPUDirect RDMA"},
    {"gdr-distance", warning, "GPUDirect RDMA is not used because GPU and NIC are too far apart",
     "use the NIC next to each GPU; else raise NCCL_NET_GDR_LEVEL (PHB, SYS) and measure",
     "GPU and NIC hang on different CPUs: then host memory may be faster"},
    {"gpu-arch-unsupported", critical, "this build has no code for the GPU",
     "install a build for the GPU's compute capability (NVCC_GENCODE for NCCL, TORCH_CUDA_ARCH_LIST for "
     "PyTorch)",
     ""},
    {"gpu-hardware", critical, "a GPU failed",
     "drain the node, read dmesg for Xid numbers, reset or replace the GPU",
     "the Xid is 13, 31 or 43: these mostly come from a faulty program"},
    {"graph-file-leftover", critical, "a graph file made for another machine is set (NCCL_GRAPH_FILE)",
     "delete NCCL_GRAPH_FILE, and NCCL_TOPO_FILE with it, from the environment, /etc/nccl.conf and "
     "~/.nccl.conf",
     ""},
    {"ifname-not-found", critical, "NCCL_SOCKET_IFNAME names no interface of this host",
     "compare it with the names that 'ip -br address' prints on every node; unset it if one interface is "
     "enough",
     ""},
    {"imex-missing", critical, "NVLink between nodes is there but memory cannot be shared over it",
     "start nvidia-imex on all nodes and create the channel devices, or set NCCL_MNNVL_ENABLE=0", ""},
    {"invalid-setting", warning, "a setting has a value that NCCL cannot read; it uses the default",
     "correct the value or unset the variable", ""},
    {"library-missing", critical, "the NCCL library is not found",
     "install NCCL (nvidia-nccl-cu12, libnccl2), or add its folder to LD_LIBRARY_PATH", ""},
    {"link-flap", critical, "a port of the network went down, or came up slower",
     "look at that port: cable, transceiver, switch port (ibqueryerrors, mlxlink, switch counters)", ""},
    {"memlock-limit", critical, "the limit of locked memory is too low for RDMA",
     "set memlock to unlimited where the ranks start: limits.conf, LimitMEMLOCK of slurmd, docker --ulimit "
     "memlock=-1",
     ""},
    {"mismatched-collective", critical, "ranks call collectives in a different order or with different sizes",
     "compare the calls of all ranks: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL", ""},
    {"mtu-mismatch", warning, "the ports of a network have different MTUs",
     "set one MTU on all hosts and switches of the network", "the ports are of separate networks"},
    {"net-fallback-socket", critical, "data between nodes goes over TCP although RDMA hardware is there",
     "make RDMA usable for the job: rdma-core (libibverbs, ibverbs-providers) in the image, /dev/infiniband "
     "in the "
     "container, NCCL_IB_DISABLE unset; NCCL_NET=IB makes the job fail instead of falling back",
     "the hardware carries storage only"},
    {"nics-differ", warning, "a host uses fewer network ports than another, and slows the others down",
     "see why ports are missing there: ibstat, rdma link, NCCL_IB_HCA, devices of the container",
     "the hosts are of different kinds"},
    {"no-ip-interface", critical, "a host has no usable network interface with an address",
     "give the container a network (--network host), or name an interface in NCCL_SOCKET_IFNAME", ""},
    {"nonblocking-misuse", critical, "a communicator was used before its previous operation was finished",
     "call ncclCommGetAsyncError until it is not ncclInProgress, before the next call", ""},
    {"nvls-fabricmanager", critical, "NVLink SHARP cannot be set up: Fabric Manager and GPUs are not in step",
     "reset the GPUs and restart nvidia-fabricmanager, or reboot; NCCL_NVLS_ENABLE=0 goes on without it", ""},
    {"ofi-missing", critical, "libfabric does not find the fast network (EFA), and offers none or TCP",
     "pass the devices to the container (--device /dev/infiniband/uverbs*, --network host, --ulimit "
     "memlock=-1) and use the "
     "plug-in of the EFA installer",
     "the machine has no EFA"},
    {"open-files-limit", critical, "a process has no file descriptor left",
     "raise the limit where ranks start: ulimit -n 65536", ""},
    {"p2p-nvlink-broken", critical, "two GPUs joined by NVLink cannot reach each other's memory",
     "reset the GPUs; see nvidia-smi nvlink --status and nvidia-smi topo -p2p r",
     "the virtual machine hides NVLink: then NCCL_IGNORE_DISABLED_P2P=1"},
    {"p2p-visible-devices", warning,
     "processes of a host see one GPU each, so they exchange data through host memory",
     "let every process see all GPUs of the host (CUDA_VISIBLE_DEVICES) and choose its own by local rank",
     "the GPUs have no peer access to each other"},
    {"peer-lost", warning, "a connection to another rank was closed: that rank failed first",
     "look at the log of the rank that ended first; this is a consequence", ""},
    {"plugin-mismatch", critical, "a plug-in does not fit this NCCL or this system, or not all hosts load it",
     "install the plug-in's build for this NCCL on all hosts, or unset NCCL_NET_PLUGIN", ""},
    {"process-group-init-twice", critical,
     "a process begins a communicator with the id of one that it has destroyed",
     "call init_process_group (ncclCommInitRank) once, or make a new id for each time", ""},
    {"rail-cross-nic", critical, "a NIC connects to one of another rail that it cannot reach",
     "keep connections on their rail: NCCL_CROSS_NIC=0, the same order of NICs in NCCL_IB_HCA on all hosts; "
     "or route between rails",
     ""},
    {"roce-gid", critical, "RoCE ports use a GID that does not reach the peer",
     "unset NCCL_IB_GID_INDEX with NCCL 2.21 or newer; before it set the index that show_gids lists for RoCE "
     "v2 and IPv4 (often 3)",
     ""},
    {"setting-left-over", warning, "a setting for debugging is left over, and makes the job slower",
     "unset it, and measure", "it was chosen by measurement"},
    {"shm-too-small", critical, "/dev/shm is too small",
     "start the container with --shm-size=8g or --ipc=host; Kubernetes: an emptyDir of medium Memory at "
     "/dev/shm",
     ""},
    {"tests-built-without-mpi", warning,
     "every process of nccl-tests calls itself rank 0: it was built without MPI",
     "build nccl-tests with make MPI=1 MPI_HOME=...", "the tests of one GPU were meant"},
    {"topology-file-bad", critical, "NCCL cannot use the topology file",
     "unset NCCL_TOPO_FILE, or write the file anew with NCCL_TOPO_DUMP_FILE of this NCCL on this machine",
     ""},
    {"topology-vm", warning, "the virtual machine shows a PCIe topology that is not the real one",
     "set NCCL_TOPO_FILE to the file that the provider has for this machine type", ""},
    {"unexplained-warning", notice, "NCCL warned, and no rule knows the line",
     "read the lines; look for them in NCCL's issues", ""},
    {"unsupported-type", critical, "the GPU does not support this data type in a reduction",
     "reduce in bf16, fp16 or fp32, or use a newer GPU", ""},
    {"version-mismatch", critical, "the ranks run different versions of NCCL",
     "install the same NCCL on all hosts; compare pip list, LD_LIBRARY_PATH and LD_PRELOAD",
     "the logs are of several jobs"},
    {"watchdog-timeout", critical, "a collective did not end in time: a rank did not arrive, or data did not",
     "compare the last operation of every rank: the rank that is behind, or died, is the cause",
     "checkpoints or evaluation take longer than the timeout: raise it"},
    {"wrong-hca", critical, "NCCL_IB_HCA or NCCL's choice takes NICs that do not belong to the job's network",
     "name the NICs of the compute network exactly: NCCL_IB_HCA='=mlx5_0,mlx5_1'", ""},
    {"wrong-interface", critical, "traffic goes over an interface that does not reach the other hosts",
     "name the interface that joins the hosts: NCCL_SOCKET_IFNAME=eth0", "all ranks are on one host"},
    {"wrong-results", critical, "a collective gave wrong results",
     "do not train on this machine; repeat with fewer GPUs and links, without NCCL_PROTO and "
     "NCCL_CHUNK_SIZE, to find the part",
     ""},
};

}  // namespace

std::span<const Cause> causes() {
  return cause_table;
}

const Cause& cause_named(std::string_view name) {
  const auto found = std::ranges::find(cause_table, name, &Cause::name);
  if (found == std::end(cause_table))
    throw Error(ErrorKind::internal, text("no cause is named '", name, "'"));
  return *found;
}

Finding finding_of(std::string_view name, double confidence, std::vector<Evidence> evidence) {
  const Cause& cause = cause_named(name);
  return {.cause = std::string(cause.name),
          .severity = cause.severity,
          .confidence = confidence,
          .verdict = std::string(cause.verdict),
          .evidence = std::move(evidence),
          .fix = std::string(cause.fix)};
}

}  // namespace weft::report::nccl
