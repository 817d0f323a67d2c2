#pragma once
// Speed of light: the bus bandwidth that links allow a collective, the part of it that a benchmark reached, and the sizes that fall off.
// Pure.
//
// Within a node, with G GB/s of links a GPU:  a ring reaches busbw G. A switch that sums (NVLS) halves what an all_reduce sends: 2(n-1)/(n+1) G.
// Between N nodes, with B GB/s of cards each: a ring reaches B, the tree of an all_reduce N(n-1)/(n(N-1)) B, for each byte leaves a node once;
// of alltoall all but a node's own part leaves it: (n-1)/(p(n-p)) B with p ranks a node.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/bandwidth/links.hpp"
#include "weft-report/bandwidth/tables.hpp"

namespace weft::report::bandwidth {

/// What the job looks like to a table.
struct Shape {
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;
  bool switch_sums = false;  ///< NVLink SHARP (NVLS) may be used
};

enum class Limit : std::uint8_t { unknown, nvlink, pcie, network, search };
/// "NVLink", "PCIe", "network ports", "NCCL's search".
std::string_view name(Limit limit);

struct Bound {
  double busbw = 0;    ///< GB/s; 0: not known
  Limit limit{};       ///< what bounds
  double planned = 0;  ///< busbw of the ring that NCCL's search found; 0: not known
};

/// A size whose bandwidth is lower than that of a smaller one.
struct FallOff {
  std::int64_t bytes = 0;
  double algbw = 0;               ///< GB/s
  std::int64_t before_bytes = 0;  ///< the smaller size that was the fastest
  double before = 0;              ///< its algbw
  bool recovers = false;          ///< a larger size is as fast again: a dip
  int line = 0;
};

/// A table beside what the links allow.
struct Speed {
  Bound bound{};
  std::int64_t bytes = 0;        ///< the largest size
  double busbw = 0;              ///< there, the better of out of place and in place
  double fraction = 0;           ///< of the bound; 0: no bound
  double floor_us = 0;           ///< the shortest time of all sizes: latency
  std::int64_t floor_bytes = 0;  ///< its size
  std::vector<FallOff> falls{};
  std::int64_t wrong = 0;  ///< values in all rows
};

/// The busbw that NCCL's algorithms can reach for `op` over these links. @param device name of the GPU, for logs that say nothing of links
Bound bound_of(const std::string& op, const Shape& shape, const Links& links, const std::string& device);
/// @param op the table's, or what its figures give away
Speed speed_of(const Table& table, const std::string& op, const Shape& shape, const Links& links);

/// "256 KiB"; bytes that are no whole number of a unit stay bytes.
std::string size_text(std::int64_t bytes);

}  // namespace weft::report::bandwidth
