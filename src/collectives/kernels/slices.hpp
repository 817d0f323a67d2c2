#pragma once
// How ranks of a node divide a reduction, and what they write past their caches.

#include <cstdint>

#include "weft/core/dtype.hpp"

namespace weft::detail {

struct Slice {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// The elements that `rank` reduces of `count`. Slices end on cache lines, so that no line is written by two
/// ranks.
Slice slice_of(std::int64_t count, int rank, int ranks, DataType dtype);

/// Whether results of an operation on so many bytes go past this rank's caches into the others' memory: they
/// will have left the caches before they are read, and their lines need not be owned here first.
bool streams_to_peers(std::size_t bytes);
/// The same for an output of so many bytes that this rank fills from others' memory.
bool streams_home(std::size_t bytes);

}  // namespace weft::detail
