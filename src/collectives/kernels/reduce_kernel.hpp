#pragma once
// Element-wise reduction of several sources into several destinations, in one pass over memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/collectives/reduce_op.hpp"
#include "weft/core/dtype.hpp"

namespace weft::detail {

/// Where results go. `streamed` are written past the caches, where the kernel can: for memory that another
/// core will read much later, so that its lines need not be owned here first. They hold what one of the
/// sources held, or nothing.
struct Destinations {
  std::span<std::byte* const> cached;
  std::span<std::byte* const> streamed{};
};

/// Every destination gets ((s0 op s1) op s2) op ...; avg then divides. A destination may be one of the sources, at the
/// same address. Sums of 16-bit types are taken in float and rounded once.
/// @param divisor of avg, a whole number for integers; 0: the number of sources
void reduce(std::span<const std::byte* const> sources, Destinations destinations, std::int64_t count,
            DataType dtype, ReduceOp op, double divisor = 0);

/// Every destination gets a copy; the source is read once. A destination may be the source.
void copy(const std::byte* source, Destinations destinations, std::size_t bytes);

/// Every destination gets ((s0 + s1) + s2) + ..., divided by `divisor`, summed in float and rounded once: bit
/// by bit what the plain loop gives. A destination may be one of the sources, at the same address.
/// @param dtype f32, f16 or bf16
void sum_floats(DataType dtype, std::span<const std::byte* const> sources, Destinations destinations,
                std::int64_t count, float divisor);

}  // namespace weft::detail
