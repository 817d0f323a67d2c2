#pragma once
// Measures how fast this machine codes, and what an all_reduce takes. All figures are medians of five tries
// after one that warms up; a try takes a pass over at most 2^20 elements.

#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/compression/codec_choice.hpp"

namespace weft::detail {

/// Measures bf16, and PowerSGD on the shape of the layout's largest matrix that it can compress, cut to 2^20
/// elements (zero if there is none). Local: each rank measures its own.
CodingSpeed measure_coding(const ParamLayout& layout, int rank);

/// Measures all_reduces of three sizes, from 16 elements to the layout's, at most 2^20. Collective; blocks.
std::vector<LinkModel::Sample> measure_link(Communicator& comm, const ParamLayout& layout);

}  // namespace weft::detail
