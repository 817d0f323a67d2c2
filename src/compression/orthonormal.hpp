#pragma once
// Makes the vectors of a factor orthonormal, and finds those that say nothing new.

#include <cstdint>
#include <span>

#include "weft/core/recycled.hpp"

namespace weft::detail {

/// Gram-Schmidt, twice, with sums in f64 in one fixed order: the same bits on every rank, and on a device.
/// Element i goes to partial sum i % 256, in turn, and those are added by halves. `factor` is [rank, length].
/// A vector of which the ones before it leave less than 2^-20 (what rounding to f32 leaves of nothing)
/// becomes zero, as all vectors of a dead layer do; NaN and Inf become NaN everywhere.
/// @returns the vectors that became zero
RecycledVector<int> orthonormalize(std::span<float> factor, int rank);

/// Of vector k among those that are drawn with a seed.
std::uint64_t vector_seed(std::uint64_t seed, int k);
/// The same vectors for the same seed, on every rank and machine; no vector is zero.
void draw(std::span<float> vector, std::uint64_t seed);

}  // namespace weft::detail
