#pragma once
// From which size on which algorithm is the fastest, of measured gains: one algorithm for all sizes at a time, in turn with the library's own choice.

#include <map>
#include <string>
#include <vector>

#include "weft-report/tuning/space.hpp"

namespace weft::report::tuning {

/// Logarithms of ratios by size: below 0 the algorithm is faster than the library's own choice there.
using GainBySize = std::map<std::uint64_t, double>;

/// The fastest of each size, in as few ranges as that takes: a size keeps the algorithm of the one before unless another is better by `swing`, and an
/// algorithm has to be better than the library's own choice by as much. None where no size gains.
std::vector<Range> fastest_ranges(const std::map<std::string, GainBySize>& gains, double swing);

/// The algorithm at that size; "" is the library's own.
const std::string& algorithm_at(const std::vector<Range>& ranges, std::uint64_t bytes);

/// Neighbours of one algorithm become one range. None where all of it is the library's own choice.
std::vector<Range> joined(const std::vector<Range>& ranges);

}  // namespace weft::report::tuning
