#pragma once
// How fast this machine codes, and what the wire takes.

#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/compression/codec_choice.hpp"

namespace weft::detail {

/// Of PowerSGD on the shape of the layout's largest matrix that it can compress (zero where there is none),
/// and of bf16. Medians of several tries on memory of this rank.
CodingSpeed measure_coding(const ParamLayout& layout, int rank);

/// All_reduces of few and of many bytes, up to the layout's; medians of several tries. Collective; blocks.
std::vector<LinkModel::Sample> measure_link(Communicator& comm, const ParamLayout& layout);

}  // namespace weft::detail
