#pragma once
// What the logs say about the links of a job: GPUs' links within a node, and network cards. NCCL prints it with
// NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH. GB/s, in one direction. Plain values; what no line stated is 0 or empty.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report::bandwidth {

/// "Pattern 4, crossNic 0, nChannels 16, bw 24.000000/24.000000, type NVL/PIX, sameChannels 1": what NCCL's search found.
struct Graph {
  int pattern = 0;  ///< 4 ring; 1, 2, 3 trees; 5 NVLS; 6 CollNet direct
  int channels = 0;
  double intra = 0;  ///< per channel
  double inter = 0;
  std::string type_intra{};  ///< "NVL", "PIX", "SYS"
  std::string type_inter{};
  bool same_channels = false;
  Evidence evidence{};
};

struct Nic {
  double bw = 0;
  Evidence evidence{};
};

using NicMap = std::map<std::string, Nic, std::less<>>;

/// The network cards of a host, by what names them; the sources are not added up.
struct HostNics {
  NicMap ports{};    ///< "NET/IB: [0] mlx5_0:uverbs0:1/IB ... speed=400000"
  NicMap devices{};  ///< "Made virtual device [0] name=mlx5_0 speed=400000"
  NicMap nodes{};    ///< "NET/0-0 (0/9a3..../1/50.000000)" of the tree of the GRAPH subsystem
  NicMap files{};    ///< of a topology file, or of ibv_devinfo -v
  const NicMap& best() const;
};

struct Links {
  double gpu = 0;  ///< all NVLinks of a GPU, or its PCIe link where it has none ("totalBw")
  Evidence gpu_evidence{};
  std::map<int, Graph> graphs{};  ///< by pattern, the first of each
  std::map<std::string, HostNics, std::less<>> nics{};
  int nvls_channels = -1;  ///< -1: not said
  int cpu_vendor = -1;     ///< of NCCL's topology: 1 Intel, 2 AMD, 4 both
  /// The host with the least bandwidth to the network; nothing known: null.
  const HostNics* least() const;
  double nics_of_a_node() const;  ///< GB/s of all its cards; 0: not known
  double widest_nic() const;
  std::size_t nics_per_node() const;
};

/// Makes the evidence of a line; most lines repeat what is known, and need none.
using MakeEvidence = std::function<Evidence()>;
/// Takes a line of NCCL's log, without what stands before the message. @return whether it states a link
bool take_link(std::string_view message, std::string_view host, const MakeEvidence& evidence, Links& links);

/// GB/s of a GPU's links by the name that the driver gives it, as NCCL counts them: links of its generation times GB/s of one. 0: not known.
double links_of_gpu(std::string_view name);
/// 70, 80, 90, 100; 0: not known.
int compute_capability(std::string_view name);

}  // namespace weft::report::bandwidth
