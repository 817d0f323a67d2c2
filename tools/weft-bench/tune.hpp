#pragma once
// The table of algorithms that a measurement speaks for.

#include <iosfwd>
#include <vector>

#include "measure.hpp"
#include "weft/collectives/algorithm.hpp"

namespace weft::bench {

/// Null: nothing is chosen for it.
std::optional<Collective> collective_of(Op op);
/// All that carry it out and may be chosen.
std::vector<Algorithm> algorithms_for(Collective kind);

/// Of results whose `against` names algorithms: for each collective and order, from the smallest size up, the
/// fastest, where it beats the one before it by more than measurements swing. Rows are for the results'
/// number of ranks, and the first is from 0 bytes on.
AlgorithmTable tuned(const std::vector<Result>& results);

/// "all_reduce 65536: small 210.1, pairwise 180.0 us; rank pairwise, any ring"
void print_tuned(std::ostream& out, const Result& result);

}  // namespace weft::bench
