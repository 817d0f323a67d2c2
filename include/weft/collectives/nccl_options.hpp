#pragma once
// How NCCL's kernels share a device and a network with the rest of a job. What is not given is NCCL's own choice, or that of
// its variables (NCCL_MIN_CTAS, NCCL_MAX_CTAS, NCCL_CGA_CLUSTER_SIZE, NCCL_IB_TC, NCCL_CTA_POLICY), which go first. All
// ranks give the same.
//
//   auto comm = weft::connect(world, {.nccl = {.max_ctas = 8}});   // 8 thread blocks of the device, for overlap
//
// WRONG: an option that the installed NCCL does not have: connect() refuses it, with the version it came with.

#include <cstdint>
#include <optional>

namespace weft {

/// What NCCL spares where it can, ncclConfig_t::CTAPolicy.
enum class CtaPolicy : std::uint8_t {
  speed,       ///< nothing: NCCL's default
  efficiency,  ///< thread blocks, where fewer are as fast
  zero,        ///< all of them: copy engines move what lies in memory that allocate() gave, within a node
};

struct NcclOptions {
  /// Thread blocks that a collective takes from computation beside it, 1 to 64.
  std::optional<int> min_ctas{};
  std::optional<int> max_ctas{};
  /// Thread blocks of a cluster, 0 to 8, on compute capability 9.0 and newer: a cluster begins when there is room for all of them.
  std::optional<int> cga_size{};
  /// The traffic class of InfiniBand and RoCE, 0 to 255, which switches tell apart. NCCL 2.26.
  std::optional<int> traffic_class{};
  /// NCCL 2.27; `zero` 2.28.
  std::optional<CtaPolicy> cta_policy{};

  friend bool operator==(const NcclOptions&, const NcclOptions&) = default;
};

}  // namespace weft
