#pragma once
// One rank's share of an operation in memory that all ranks of the node have mapped: copies and sums, by weft's kernels, with no protocol.

#include <cstddef>
#include <utility>
#include <vector>

#include "case.hpp"

namespace weft::bench {

class SharedMoves {
 public:
  /// The buffers of a rank, where this one has mapped them.
  struct Buffers {
    std::byte* first = nullptr;
    std::byte* second = nullptr;
  };

  SharedMoves(std::vector<Buffers> of_ranks, int rank) : of_ranks_(std::move(of_ranks)), rank_(rank) {}

  /// Addresses in a rank's memory. In-place parts are at that rank's offset.
  std::byte* input(Case which, int rank) const {
    which.rank = rank;
    return of(rank).first + which.in_offset();
  }
  std::byte* output(Case which, int rank) const {
    which.rank = rank;
    return (which.in_place ? of(rank).first : of(rank).second) + which.out_offset();
  }

  /// Writes `count` elements into this rank's output as part `number`.
  void copy_part(const Case& which, int number, const std::byte* from) const;
  /// Sums this rank's slice of all inputs into every output that is written.
  void reduce_slice(const Case& which);
  /// Sums this rank's part of all inputs.
  void reduce_part(const Case& which);

 private:
  const Buffers& of(int rank) const { return of_ranks_[static_cast<std::size_t>(rank)]; }

  std::vector<Buffers> of_ranks_;
  int rank_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> cached_;
  std::vector<std::byte*> streamed_;
};

}  // namespace weft::bench
