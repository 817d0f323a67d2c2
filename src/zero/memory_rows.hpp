#pragma once
// From elements to bytes and places: what the exact memory plan and the closed form have in common.

#include "weft/zero/memory_plan.hpp"

namespace weft::detail {

/// Of one rank.
struct HeldElements {
  std::int64_t whole = 0;  ///< parameters
  std::int64_t shard = 0;
  std::int64_t slots = 0;
  std::int64_t gradients = 0;
  std::int64_t windows = 0;
  std::int64_t gradient_shard = 0;
  std::int64_t state = 0;      ///< of each array of the optimizer
  std::int64_t in_memory = 0;  ///< of these, offloaded to host memory
  std::int64_t in_file = 0;
  std::int64_t ring_bytes = 0;  ///< that these pass through

  std::int64_t offloaded() const { return in_memory + in_file; }
};

/// @throws Error (usage) for what has no plan
void expect_plannable(DataType dtype, int ranks, const zero::MemoryOptions& options);

zero::MemoryPlan memory_rows(const HeldElements& elements, DataType dtype, int ranks,
                             const zero::MemoryOptions& options);

}  // namespace weft::detail
