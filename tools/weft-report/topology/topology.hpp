#pragma once
// What a host is made of, as NCCL found it: CPUs, GPUs, network ports, and the PCIe and NVLink between them. Plain values; a fact that the
// source did not state is -1, 0 or empty, as its line says.
//
//   for (const Host& host : read_system(content, "topo.xml"))
//     for (const Gpu& gpu : host.gpus) std::cout << gpu.bus() << ' ' << gpu.nvlinks() << '\n';
//
// WRONG: `dev` of two hosts compared. It counts from 0 on each; a bus number is a host's own, too.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report::topology {

/// A PCIe link as device and port agreed on it: at the lower of their speeds and widths.
struct PciLink {
  double gigatransfers = 0;  ///< GT/s of a lane: 2.5, 5, 8, 16, 32, 64; 0: not stated
  int width = 0;             ///< lanes; 0: not stated
  bool known() const { return gigatransfers > 0 && width > 0; }
  /// Gbyte/s in one direction as NCCL counts them; 0: not known. Generation 4 with 16 lanes: 24
  double gigabytes() const;
};

/// A device or bridge of PCIe.
struct PciStep {
  std::string bus{};  ///< "0000:18:00.0"
  PciLink link{};     ///< towards the CPU
  Evidence evidence{};
};

enum class NvTarget : std::uint8_t { gpu, nvswitch, other };

struct NvLink {
  std::string target{};  ///< bus of the GPU or switch at the other end
  NvTarget kind = NvTarget::other;
  int count = 0;  ///< links to it
};

/// Anything below PCIe. `path` begins with the device itself and goes up; the CPU that it ends at is `numa`.
struct Device {
  std::vector<PciStep> path{};
  std::string model{};  ///< vendor and device, "0x15b3:0x1021"; empty: not stated
  int numa = -1;        ///< NUMA node; -1: the system names none
  Evidence evidence{};
  std::string bus() const { return path.empty() ? std::string() : path.front().bus; }
  /// The step with the slowest known link on the way to the CPU; null: no link is known.
  const PciStep* slowest() const;
};

struct Gpu : Device {
  int dev = -1;   ///< number in the driver's order
  int rank = -1;  ///< -1: of no rank of the communicator
  int sm = 0;     ///< compute capability: 90 is 9.0; 0: not stated
  int gdr = -1;   ///< 1: GPUDirect RDMA works, 0: it does not, -1: not stated
  std::vector<NvLink> links{};
  double c2c_gigabytes = 0;  ///< Gbyte/s between CPU and GPU over NVLink-C2C; 0: none
  int nvlinks() const;       ///< links to anything
};

/// A port of a NIC.
struct Nic : Device {
  std::string name{};  ///< "mlx5_0", "eth0"
  std::string guid{};  ///< "0x5c257"; of the NIC, not the port
  int dev = -1;        ///< number in NCCL's order
  int port = -1;
  std::int64_t megabits = 0;  ///< Mbit/s in one direction; 0: not stated
  int gdr = -1;               ///< as of a GPU
};

struct Cpu {
  int numa = -1;
  std::string arch{};      ///< "x86_64", "arm64", "ppc64"
  std::string vendor{};    ///< "GenuineIntel"
  std::string affinity{};  ///< mask of cores in hexadecimal
  Evidence evidence{};
};

struct Host {
  std::string file{};
  std::string hash{};  ///< NCCL's name for the host, of version 2.19 and later: "0x8a3..."
  std::vector<Cpu> cpus{};
  std::vector<Gpu> gpus{};
  std::vector<Nic> nics{};
  Evidence evidence{};
  int switches = 0;  ///< PCIe bridges above its devices
};

/// What lies between two devices, the nearest first; the names are those of nvidia-smi and NCCL. NCCL calls NODE PHB, too.
enum class Distance : std::uint8_t { same, nvl, pix, pxb, phb, node, sys, unknown };
std::string_view name(Distance distance);
/// By PCIe: one bridge is PIX, several are PXB, the CPU is PHB, several CPUs are SYS. Unknown for devices without a bus.
Distance distance(const Device& a, const Device& b);

/// Reads what NCCL_TOPO_DUMP_FILE holds. Several hosts: an NVLink domain of a rack.
/// @throws Error (usage) with the line where it is broken
std::vector<Host> read_system(std::string_view xml, const std::string& file);

}  // namespace weft::report::topology
