#pragma once
// Turns a list of jobs into launches. A launch takes as many jobs as fit the 4 KiB of a kernel's arguments;
// its thread blocks are the blocks of its first job, then those of the second, and so on.

#include <cuda_runtime_api.h>

#include <span>

#include "compression/power_sgd/low_rank_jobs.hpp"
#include "core/cuda/launch.cuh"

namespace weft::detail::cuda::kernels {

constexpr int items_a_launch = 30;

template <class Item>
struct Table {
  Item items[items_a_launch];
  std::uint32_t begins[items_a_launch + 1];  // number of the first block of each item
};
static_assert(sizeof(Table<LowRankPart>) <= 4096);

/// The item that this thread block works on, and its number among the item's blocks.
struct Share {
  int item;
  std::uint32_t block;
};
template <class Item>
__device__ Share share_of(const Table<Item>& table) {
  int item = 0;
  while (blockIdx.x >= table.begins[item + 1]) ++item;
  return {item, blockIdx.x - table.begins[item]};
}

/// @param blocks called with an item, returns its number of blocks
/// @param start launches for a table and its number of blocks
template <class Item, class Blocks, class Start>
cudaError_t for_each_table(std::span<const Item> items, Blocks blocks, Start start) {
  while (!items.empty()) {
    const auto some = items.first(std::min<std::size_t>(items.size(), items_a_launch));
    items = items.subspan(some.size());
    Table<Item> table{};
    for (std::size_t i = 0; i < items_a_launch; ++i) {
      const bool is_there = i < some.size();
      if (is_there) table.items[i] = some[i];
      table.begins[i + 1] = table.begins[i] + (is_there ? static_cast<std::uint32_t>(blocks(some[i])) : 0);
    }
    const std::uint32_t all = table.begins[items_a_launch];
    if (all == 0) continue;
    if (const cudaError_t code = start(table, all); code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

__device__ inline std::int64_t lesser(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
__device__ inline bool aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(float4) == 0;
}

/// How a matrix's residual is stored.
enum class Kept { nothing, floats, steps };
__device__ inline Kept kept_in(const Residual& residual) {
  if (residual.values == nullptr) return Kept::nothing;
  return residual.scales == nullptr ? Kept::floats : Kept::steps;
}

}  // namespace weft::detail::cuda::kernels
