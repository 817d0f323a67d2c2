#include "shared_moves.hpp"

#include <cstring>

#include "collectives/kernels/reduce_kernel.hpp"
#include "collectives/kernels/slices.hpp"

namespace weft::bench {

void SharedMoves::copy_part(const Case& which, int number, const std::byte* from) const {
  std::byte* const to = output(which, rank_) + which.part_bytes(number);
  if (to != from) std::memcpy(to, from, which.part_bytes(1));
}

void SharedMoves::reduce_slice(const Case& which) {
  const auto mine = detail::slice_of(which.count, rank_, which.ranks, which.dtype);
  if (mine.count == 0) return;
  const std::size_t begin = static_cast<std::size_t>(mine.begin) * size_of(which.dtype);
  sources_.clear();
  cached_.clear();
  streamed_.clear();
  for (int rank = 0; rank < which.ranks; ++rank) {
    sources_.push_back(input(which, rank) + begin);
    if (!which.writes(rank)) continue;
    const bool streams = rank != rank_ && detail::streams_to_peers(which.bytes());
    (streams ? streamed_ : cached_).push_back(output(which, rank) + begin);
  }
  detail::reduce(sources_, {cached_, streamed_}, mine.count, which.dtype, which.redop);
}

void SharedMoves::reduce_part(const Case& which) {
  sources_.clear();
  cached_.assign(1, output(which, rank_));
  for (int rank = 0; rank < which.ranks; ++rank)
    sources_.push_back(input(which, rank) + which.part_bytes(rank_));
  detail::reduce(sources_, {cached_}, which.count, which.dtype, which.redop);
}

}  // namespace weft::bench
