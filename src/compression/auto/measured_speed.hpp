#pragma once
// Measures how fast this machine encodes and decodes, and what an all_reduce takes. All figures are medians
// of five tries after one that warms up. On the host a try takes a pass over at most 2^20 elements, more than
// a core's own caches hold, on a device over at most 2^24, more than its cache holds; there it is the
// device's time, between two events.

#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/compression/codec_choice.hpp"

namespace weft::detail {

/// Measures bf16, and PowerSGD on the shape of the layout's largest matrix that it can compress, cut to as many
/// elements (zero if there is none), on the device of `comm`. Local: each rank measures its own. Price on a device: for a
/// moment up to 300 MB of its memory. @throws Error (system) when the device has less
CodingSpeed measure_coding(const ParamLayout& layout, int rank, const Communicator& comm);

/// Measures all_reduces of three sizes, from 16 elements to the layout's, at most as many, in memory of `comm`. Collective;
/// blocks.
std::vector<LinkModel::Sample> measure_link(Communicator& comm, const ParamLayout& layout);

}  // namespace weft::detail
