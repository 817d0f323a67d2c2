#pragma once
// The numbers of NCCL's cost model, by version. Latencies are microseconds, bandwidths GB/s.

#include <array>

#include "weft-report/bandwidth/cost_model.hpp"

namespace weft::report::bandwidth {

/// LL, LL128, Simple.
using ByProtocol = std::array<double, protocols>;
using ByAlgorithm = std::array<ByProtocol, algorithms>;
/// On one node, on two, on more.
using ByNodes = std::array<double, 3>;
/// Volta, Ampere, Hopper, Blackwell.
using ByGpu = std::array<ByNodes, 4>;

struct CostConstants {
  ByAlgorithm base{};
  ByAlgorithm nvlink{};
  ByAlgorithm pci{};
  ByAlgorithm net{};
  ByGpu ll_most{};  ///< of all channels. On several nodes the row is the processor's: Intel, AMD
  ByGpu ring_ll128_of_channel{};
  ByGpu tree_ll128_of_channel{};
  ByGpu tree_of_channel{};
  ByGpu nvls_tree_of_channel{};
  std::array<double, 4> nvls_efficiency{};
};

/// Cited from NCCL, src/graph/tuning.cc of each version from 2.18.1 to 2.30.7.
CostConstants cost_constants(const NcclVersion& version);
/// What a tree loses at this size: 1 for nothing. @param sizes how many powers of two from 64 on lose anything
double tree_correction(Protocol protocol, std::int64_t bytes, std::size_t sizes = 23);

}  // namespace weft::report::bandwidth
