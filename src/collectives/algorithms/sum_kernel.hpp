#pragma once
// Sums of vectors of floats, whole or in 16 bits, with the widest instructions this machine has.

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/algorithms/reduce_kernel.hpp"

namespace weft::detail {

/// Every destination gets ((s0 + s1) + s2) + ..., divided by `divisor`, summed in float and rounded once: bit
/// by bit what the plain loop gives. A destination may be one of the sources, at the same address.
/// @param dtype f32, f16 or bf16
void sum_floats(DataType dtype, std::span<const std::byte* const> sources, Destinations destinations,
                std::int64_t count, float divisor);

}  // namespace weft::detail
