#pragma once
// Sums of float vectors, with the widest instructions this machine has.

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/algorithms/reduce_kernel.hpp"

namespace weft::detail {

/// Every destination gets ((s0 + s1) + s2) + ..., divided by `divisor`: bit by bit what the plain loop gives.
/// A destination may be one of the sources, at the same address.
void sum_f32(std::span<const std::byte* const> sources, Destinations destinations, std::int64_t count,
             float divisor);

}  // namespace weft::detail
