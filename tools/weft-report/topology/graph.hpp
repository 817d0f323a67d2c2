#pragma once
// The channels that NCCL chose for a host, as NCCL_GRAPH_DUMP_FILE writes them and NCCL_GRAPH_FILE reads them. Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report::topology {

struct GraphGpu {
  std::int64_t dev = -1;  ///< number in the driver's order
  std::int64_t rank = -1;
  friend bool operator==(const GraphGpu&, const GraphGpu&) = default;
};

/// From the first network device through the GPUs to the last; within one host there are no network devices.
struct Channel {
  std::vector<std::int64_t> nets{};
  std::vector<GraphGpu> gpus{};
  friend bool operator==(const Channel&, const Channel&) = default;
};

struct Graph {
  int id = -1;       ///< 0 ring, 1 tree, 2 CollNet chain, 3 NVLS, 4 CollNet direct
  int pattern = -1;  ///< as "Pattern 4" in logs: 1 to 3 trees, 4 ring, 5 NVLS, 6 CollNet direct
  bool cross_nic = false;
  int channels = 0;
  double intra_gigabytes = 0;  ///< Gbyte/s of a channel between the GPUs
  double inter_gigabytes = 0;  ///< Gbyte/s of a channel to the network
  std::string intra_type{};    ///< the worst path: "NVL", "PIX", "SYS"
  std::string inter_type{};
  std::vector<Channel> ways{};
  Evidence evidence{};
  /// Whether both are the same choice: pattern, channels, speeds within 1 %, and types.
  bool alike(const Graph& other) const;
};

/// The choice as a line of a log states it, without its channels: "Pattern 4, crossNic 0, nChannels 12, bw 20.0/20.0, type NVL/PIX,
/// sameChannels 1". Before NCCL 2.16 the word is speed. nullopt: another line, or one that was cut
std::optional<Graph> graph_of_line(std::string_view message);

/// @throws Error (usage) with the line where it is broken
std::vector<Graph> read_graphs(std::string_view xml, const std::string& file);

}  // namespace weft::report::topology
