#pragma once
// A number that stands for the values of a tensor, for ranks to compare.

#include <cstdint>
#include <string>

#include "weft/core/view.hpp"

namespace weft::detail {

/// The same on every rank for the same bits; values that differ in one element differ in it, and others with a
/// chance of 2^-64 do not. Blocks. Reads 8 bytes at a time, in four chains that do not wait for each other.
std::uint64_t content_hash(ConstView values);

/// "w1, 128 f32, hash 0123456789abcdef": one line for plan_agreement.hpp.
std::string line_of_values(const std::string& name, ConstView values);

}  // namespace weft::detail
