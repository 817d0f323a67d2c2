#pragma once
// The table of algorithms that follows from a measurement.

#include <iosfwd>
#include <vector>

#include "measure.hpp"
#include "weft/collectives/algorithm.hpp"

namespace weft::bench {

/// All algorithms that implement it and may be chosen.
std::vector<Algorithm> algorithms_for(Collective kind);

/// Takes results whose `against` names algorithms. For each collective and order, from the smallest size up,
/// it chooses the fastest algorithm if that beats the previous choice by more than the noise of measurements.
/// Rows hold for the number of ranks of the results; the first row starts at 0 bytes.
AlgorithmTable tuned(const std::vector<Result>& results);

/// "all_reduce 65536: small 210.1, pairwise 180.0 us; rank pairwise, any ring"
void print_tuned(std::ostream& out, const Result& result);

}  // namespace weft::bench
