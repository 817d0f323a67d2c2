#pragma once
// What goes in, and what must come out: small whole numbers whose reductions are exact in every order, so
// that every implementation can be held to the same bits.

#include <cstddef>
#include <cstdint>

#include "case.hpp"

namespace weft::bench {

/// Writes this rank's input of `in_count()` elements.
void fill(const Case& which, std::byte* input);
/// Elements of this rank's output that are not what they must be.
std::int64_t wrong(const Case& which, const std::byte* output);

}  // namespace weft::bench
