#pragma once
// Along which ranks the sum of a slice reaches its owner, and the result all others: the difference
// between one algorithm and another.
//
// Places are ranks counted from the owner, who has place 0 of n. A star is one step; a chain (a ring, seen
// from one slice) has n-1 and only ever talks to its neighbours; a binomial tree has log2 n, and when every
// rank owns a slice and step k goes 2^k places, each rank still sends and receives every byte once: halving
// and doubling for any number of ranks (Bar-Noy, Kipnis, Schieber 1993; Traff 2024, arXiv 2410.14234).

#include <vector>

namespace weft::detail {

enum class Tree { star, chain, binomial };

/// Whom a place hands its sum; never asked of place 0.
int summed_by(Tree tree, int place, int n);
/// Who hand their sums to a place.
std::vector<int> summands(Tree tree, int place, int n);
/// Whom a place has the result from; never asked of place 0.
int told_by(Tree tree, int place);
/// Who have it from a place.
std::vector<int> told(Tree tree, int place, int n);

}  // namespace weft::detail
