#include "weft-report/nccl/rules/rules.hpp"

namespace weft::report::nccl {
namespace {

bool names_an_interface(const Job& job) {
  return job.setting("NCCL_SOCKET_IFNAME") != nullptr;
}
bool names_no_interface(const Job& job) {
  return !names_an_interface(job) && job.says_settings();
}
bool on_several_nodes(const Job& job) {
  return job.several_nodes();
}
bool has_graph_file(const Job& job) {
  return job.setting("NCCL_GRAPH_FILE") != nullptr;
}
bool has_no_graph_file(const Job& job) {
  return !has_graph_file(job);
}
bool has_topology_file(const Job& job) {
  return job.setting("NCCL_TOPO_FILE") != nullptr;
}
bool is_roce(const Job& job) {
  return job.roce() != nullptr;
}
/// GIDs in the line say more than its status: a job rule reads them.
bool is_roce_without_gids(const Job& job) {
  return is_roce(job) && job.gids.empty();
}
bool is_not_roce(const Job& job) {
  return !is_roce(job) && job.gids.empty();
}

constexpr LineRule line_table[] = {
    // PCIe
    {"acs-iommu", 0.85, {"Got completion ", "error 4,"}},
    {"acs-iommu", 0.85, {"Got completion ", "status=4 "}},
    {"acs-iommu", 0.85, {"Got completion ", "LOC_PROT"}},
    {"acs-iommu", 0.85, {"Got completion ", "(4) opcode"}},
    {"acs-iommu", 0.6, {"ACSCtl:", "SrcValid+"}},
    {"acs-iommu", 0.9, {"IO_PAGE_FAULT"}},
    {"acs-iommu", 0.9, {"DMAR: [DMA ", "fault addr"}},
    // GPUs and CUDA
    {"driver-too-old", 0.97, {"driver version is insufficient for CUDA runtime"}},
    {"driver-too-old", 0.97, {"The NVIDIA driver on your system is too old"}},
    {"driver-too-old", 0.9, {"PTX was compiled with an unsupported toolchain"}},
    {"driver-too-old", 0.9, {"forward compatibility was attempted on non supported HW"}},
    {"driver-too-old", 0.9, {"not supported in the installed CUDA driver"}},
    {"driver-too-old", 0.9, {"unsupported display driver / cuda driver combination"}},
    {"duplicate-gpu", 0.97, {"Duplicate GPU detected"}},
    {"duplicate-gpu", 0.97, {"Multiple Ranks are using the same GPU"}},
    {"gpu-arch-unsupported", 0.95, {"invalid device function"}},
    {"gpu-arch-unsupported", 0.95, {"no kernel image is available"}},
    {"fabricmanager-down", 0.95, {"system not yet initialized"}},
    {"fabricmanager-down", 0.95, {"CUDA_ERROR_SYSTEM_NOT_READY"}},
    {"nvls-fabricmanager", 0.93, {"transport/nvls.cc", "NCCL WARN Cuda failure"}, "out of memory"},
    {"nvls-fabricmanager", 0.95, {"Failed to bind NVLink SHARP"}, "NCCL INFO"},
    {"imex-missing", 0.95, {"MNNVL (cliqueSize", "is available but not working"}},
    {"p2p-nvlink-broken", 0.95, {"P2P is disabled between NVLINK connected GPUs"}},
    {"p2p-visible-devices", 0.8, {"Could not enable P2P between dev"}},
    {"p2p-visible-devices", 0.8, {"failed to open CUDA IPC handle", "invalid device"}},
    {"gpu-hardware", 0.95, {"fallen off the bus"}},
    {"gpu-hardware", 0.95, {"uncorrectable ECC error"}},
    {"gpu-hardware", 0.8, {"NVRM: Xid"}},
    {"cuda-out-of-memory", 0.9, {"Cuda failure", "out of memory"}},
    {"cuda-out-of-memory", 0.85, {"CUDA out of memory"}},
    {"cuda-out-of-memory", 0.85, {"CUDA error: out of memory"}},
    {"cuda-initialization", 0.85, {"CUDA error: initialization error"}},
    {"cuda-initialization", 0.8, {"all CUDA-capable devices are busy or unavailable"}},
    {"cuda-initialization", 0.9, {"Cannot re-initialize CUDA in forked subprocess"}},
    {"cuda-error-in-kernel", 0.85, {"an illegal memory access was encountered"}},
    {"cuda-error-in-kernel", 0.85, {"unspecified launch failure"}},
    {"cuda-error-in-kernel", 0.85, {"device-side assert triggered"}},
    {"unsupported-type", 0.95, {"FP8 reduction support begins with sm90"}},
    // Host and container
    {"shm-too-small", 0.97, {"posix_fallocate failed", "No space left on device"}},
    {"shm-too-small", 0.97, {"failed to extend ", "No space left on device"}},
    {"shm-too-small", 0.9, {"Error while creating shared memory segment"}},
    {"shm-too-small", 0.95, {"insufficient shared memory (shm)"}},
    {"shm-too-small", 0.5, {"Bus error (core dumped)"}},
    {"memlock-limit", 0.93, {"Call to ibv_", "failed", "Cannot allocate memory"}},
    {"memlock-limit", 0.93, {"Call to ibv_", "failed", "errno 12"}},
    {"open-files-limit", 0.95, {"Too many open files"}},
    {"cumem-container", 0.8, {"cuMem host allocations do not appear to be working"}},
    {"host-memory-exhausted", 0.9, {"Out of memory: Killed process"}},
    {"host-memory-exhausted", 0.9, {"oom_kill event"}},
    {"host-memory-exhausted", 0.9, {"oom-kill:"}},
    {"host-memory-exhausted", 0.9, {"srun: error: ", ": Out Of Memory"}},
    {"driver-library-missing", 0.95, {"Driver/library version mismatch"}},
    {"driver-library-missing", 0.85, {"Failed to initialize NVML: "}, "mismatch"},
    {"affinity-empty", 0.85, {"Affinity for GPU ", "empty, ignoring"}},
    {"library-missing", 0.9, {"libnccl.so", "cannot open shared object file"}},
    {"library-missing", 0.9, {"libnccl.so", "failed to map segment from shared object"}},
    // Interfaces
    {"ifname-not-found", 0.95, {"no socket interface found"}, "", names_an_interface},
    {"ifname-not-found", 0.95, {"no interface found"}, "", names_an_interface},
    {"ifname-not-found", 0.95, {"No IP interface found"}, "", names_an_interface},
    {"ifname-not-found", 0.9, {"No usable listening interface found"}, "", names_an_interface},
    {"no-ip-interface", 0.93, {"no socket interface found"}, "", names_no_interface},
    {"no-ip-interface", 0.93, {"no interface found"}, "", names_no_interface},
    {"no-ip-interface", 0.93, {"No IP interface found"}, "", names_no_interface},
    {"no-ip-interface", 0.9, {"No usable listening interface found"}, "", names_no_interface},
    {"fabric-unreachable", 0.7, {"No route to host"}, "retrying"},
    {"fabric-unreachable", 0.7, {"Network is unreachable"}, "retrying"},
    {"fabric-unreachable", 0.65, {"onnect to ", "failed", "Connection timed out"}},
    {"wrong-interface", 0.7, {"onnect to 127."}, "", on_several_nodes},
    {"wrong-interface", 0.85, {"onnect to 172.17."}, "", on_several_nodes},
    {"port-in-use", 0.9, {"Address already in use"}},
    {"port-in-use", 0.9, {"EADDRINUSE"}, "Address already in use"},
    {"ifname-not-found", 0.85, {"Unable to find address for: "}},
    {"connection-blocked", 0.6, {"client socket has timed out after"}},
    {"connection-blocked", 0.6, {"client socket has failed to connect to any network address of"}},
    {"init-store-timeout", 0.8, {"waiting for clients", "clients joined"}},
    {"connection-blocked", 0.5, {"exceeded error retry count"}, "No route to host"},
    // RDMA
    {"link-flap", 0.92, {"Got async event : port error"}},
    {"link-flap", 0.92, {"async fatal event: port error"}},
    {"link-flap", 0.9, {"Got async event : device fatal"}},
    {"link-flap", 0.8, {"mlx5_core", "Link down"}},
    {"roce-gid", 0.8, {"Got completion ", "error 12,"}, "", is_roce_without_gids},
    {"roce-gid", 0.8, {"Got completion ", "status=12 "}, "", is_roce_without_gids},
    {"roce-gid", 0.8, {"Got completion ", "(12) opcode"}, "", is_roce_without_gids},
    {"roce-gid",
     0.8,
     {"Call to ibv_modify_qp failed with", "Connection timed out"},
     "retrying",
     is_roce_without_gids},
    {"roce-gid",
     0.75,
     {"Call to ibv_modify_qp failed with", "Invalid argument"},
     "retrying",
     is_roce_without_gids},
    {"fabric-unreachable", 0.6, {"Got completion ", "error 12,"}, "", is_not_roce},
    {"fabric-unreachable", 0.6, {"Got completion ", "status=12 "}, "", is_not_roce},
    {"fabric-unreachable", 0.6, {"Got completion ", "(12) opcode"}, "", is_not_roce},
    {"fabric-unreachable",
     0.6,
     {"Call to ibv_modify_qp failed with", "Connection timed out"},
     "retrying",
     is_not_roce},
    {"rail-cross-nic", 0.8, {"mismatched physical devices between local"}, "NCCL INFO"},
    {"wrong-hca", 0.9, {"Attempted to connect incompatible devices"}},
    {"wrong-hca", 0.9, {"device is incompatible with the local ["}},
    // Plug-ins
    {"ofi-missing", 0.93, {"NET/OFI Selected Provider is tcp"}},
    {"ofi-missing", 0.93, {"NET/OFI Selected Provider is sockets"}},
    {"ofi-missing", 0.93, {"NET/OFI ", "No eligible providers were found"}},
    {"ofi-missing", 0.9, {"NET/OFI ", "Couldn't find any optimal provider"}},
    {"ofi-missing", 0.9, {"Error: network AWS Libfabric not found"}},
    {"plugin-mismatch", 0.85, {"Error: network ", " not found"}, "AWS Libfabric"},
    {"plugin-mismatch", 0.9, {"libnccl-net", "undefined symbol"}},
    {"plugin-mismatch", 0.9, {"libnccl-net", "version `", "not found"}},
    {"plugin-mismatch", 0.9, {"version `GLIBC", "not found (required by ", "/libnccl"}},
    {"plugin-mismatch", 0.9, {"libnccl-tuner", "undefined symbol"}},
    {"collnet-fallback", 0.9, {"Cannot initialize CollNet, using point-to-point network instead"}},
    {"collnet-fallback", 0.8, {"SHArP Job init error"}},
    {"collnet-fallback", 0.7, {"SHARP coll init error"}},
    // Files and settings
    {"graph-file-leftover", 0.95, {"XML Import Channel : dev"}, "", has_graph_file},
    {"graph-file-leftover", 0.85, {"XML Import Channel : dev"}, "", has_no_graph_file},
    {"graph-file-leftover", 0.9, {"XML Graph has wrong version"}},
    {"graph-file-leftover", 0.9, {"Could not open XML graph file"}},
    {"topology-file-bad", 0.95, {"XML Topology has wrong version"}},
    {"topology-file-bad", 0.95, {"NCCL WARN Could not open XML topology file"}},
    {"topology-file-bad",
     0.9,
     {"Could not open XML topology file"},
     "virtualTopology.xml",
     has_topology_file},
    {"topology-file-bad", 0.9, {"NCCL WARN XML Parse"}},
    {"topology-file-bad", 0.9, {"NCCL WARN XML Mismatch"}},
    {"topology-file-bad", 0.8, {"NCCL WARN Attribute ", " of node ", " not found"}},
    {"topology-file-bad", 0.6, {" graph/", "NCCL WARN "}, "XML Import Channel", has_topology_file},
    {"topology-vm", 0.85, {"PCI[0."}},
    {"topology-vm", 0.75, {"Pattern 4, ", "bw 0."}},
    {"topology-vm", 0.7, {"link_speed=\"2.5 GT/s", "link_width=\"1\""}},
    {"invalid-setting", 0.95, {"Invalid value ", "using default"}},
    {"algorithm-unavailable", 0.95, {"lgorithm/protocol available for function"}},
    // Calls
    {"mismatched-collective", 0.93, {"Mismatched collective detected"}},
    {"mismatched-collective", 0.93, {"Detected mismatch between collectives on ranks"}},
    {"mismatched-collective", 0.85, {"expects same model across all ranks", "inconsistent"}},
    {"rank-behind", 0.9, {"failed to pass monitoredBarrier"}},
    {"mismatched-collective", 0.75, {"message truncated : receiving"}},
    {"version-mismatch", 0.97, {"Mismatched NCCL version detected"}},
    {"version-mismatch", 0.97, {"libtorch_cuda.so: undefined symbol: nccl"}},
    {"version-mismatch", 0.9, {"undefined symbol: nccl"}, "libtorch_cuda.so"},
    {"duplicate-gpu", 0.97, {"Duplicated GPU device is not allowed by NCCL"}},
    {"gpu-arch-unsupported", 0.9, {"is not compatible with the current PyTorch installation"}},
    {"more-ranks-than-gpus", 0.9, {"CUDA error: invalid device ordinal"}},
    {"more-ranks-than-gpus", 0.9, {"Test CUDA failure ", "'invalid device ordinal'"}},
    {"gpu-hardware", 0.95, {"uncorrectable NVLink error"}},
    {"nonblocking-misuse", 0.9, {"Attempt to use communicator before the previous operation"}},
    {"watchdog-timeout", 0.3, {"Watchdog caught collective operation timeout"}},
    {"peer-lost", 0.3, {"Connection closed by remote peer"}, "NCCL INFO"},
    {"peer-lost", 0.3, {"Connection reset by peer"}, "NCCL INFO"},
    {"peer-lost", 0.3, {"remote process exited or there was a network error"}},
    {"wrong-results", 0.95, {"Out of bounds values :", "FAILED"}},
};

}  // namespace

std::span<const LineRule> line_rules() {
  return line_table;
}

}  // namespace weft::report::nccl
