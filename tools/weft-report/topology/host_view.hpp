#pragma once
// What rules compare of a host, whether NCCL's topology file or `nvidia-smi topo -m` states it.
//
//   for (const HostView& host : host_views(hosts, matrices)) if (!host.nics.empty()) judge(host.gpus);
//
// WRONG: `nvlinks` of views of different sources compared. A topology file counts a GPU's links, a table those of all its pairs.

#include <string>
#include <vector>

#include "weft-report/topology/matrix.hpp"
#include "weft-report/topology/topology.hpp"

namespace weft::report::topology {

/// A GPU or NIC, and the nearest one of the other kind.
struct NearestOther {
  std::string name{};   ///< "GPU3", "mlx5_0"
  std::string other{};  ///< empty: there is none
  Distance distance = Distance::unknown;
  bool direct = true;  ///< of a NIC; false: NCCL found that it does not reach the memory of GPUs
  Evidence evidence{};
  /// Below one PCIe switch or several, which is what GPUDirect RDMA needs by default.
  bool near() const { return distance <= Distance::pxb; }
  bool far() const { return distance >= Distance::phb && distance != Distance::unknown; }
};

struct GpuView : NearestOther {
  std::string kind{};  ///< GPUs of another kind are not compared; empty: not stated
  int nvlinks = 0;
  int numa = -1;  ///< -1: not stated
};

struct HostView {
  std::string name{};      ///< for people: a host, or else the file
  bool from_file = false;  ///< of NCCL; else a table of nvidia-smi
  bool coherent = false;   ///< GPUs joined to their CPU by NVLink-C2C: the way through the CPU is fast
  bool made_up = false;    ///< PCIe is not what the machine has: see below
  std::vector<GpuView> gpus{};
  std::vector<NearestOther> nics{};  ///< each name once
};

std::vector<HostView> host_views(const std::vector<Host>& hosts, const std::vector<Matrix>& matrices);

/// What a virtual machine shows for a port that it makes up: a link of the first generation with one lane. Null: none.
const PciStep* made_up_step(const Device& device);
const PciStep* made_up_step(const Host& host);
/// Boards with NVSwitches have PCIe switches, too, between GPUs and NICs; a virtual machine may show none.
bool hides_switches(const Host& host);

/// As people name it: the file, and which host of it where it holds several.
std::string host_name(const Host& host, const std::vector<Host>& all);

}  // namespace weft::report::topology
