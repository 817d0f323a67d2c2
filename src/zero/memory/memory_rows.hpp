#pragma once
// From elements to bytes and places: what the exact plan (memory_plan.cpp, which defines these functions) and
// the closed form (memory_estimate.cpp) have in common.

#include "weft/zero/memory_plan.hpp"

namespace weft::detail {

/// Elements that one rank holds.
struct HeldElements {
  std::int64_t whole = 0;  ///< replicated parameters
  std::int64_t shard = 0;  ///< sharded parameters
  std::int64_t gather_buffers = 0;
  std::int64_t gradients = 0;
  std::int64_t bucket_ring = 0;
  std::int64_t gradient_shard = 0;
  std::int64_t state = 0;             ///< in each array of the optimizer
  std::int64_t in_memory = 0;         ///< of state, offloaded to host memory
  std::int64_t in_file = 0;           ///< of state, offloaded to the file
  std::int64_t owned_matrices = 0;    ///< of Muon
  std::int64_t products = 0;          ///< f32, of Muon
  std::int64_t state_ring_bytes = 0;  ///< bytes of the ring that the file's state passes through

  std::int64_t offloaded() const { return in_memory + in_file; }
};

/// @throws Error (usage) for options that have no plan
void expect_plannable(DataType dtype, int ranks, const zero::MemoryOptions& options);

/// The rows of a memory plan: elements times bytes, on the device, on the host and in the file.
zero::MemoryPlan memory_rows(const HeldElements& elements, DataType dtype, int ranks,
                             const zero::MemoryOptions& options);

}  // namespace weft::detail
