#pragma once
// Sums a fixed number of micro-batches by one binary tree, whatever the number of ranks.
//
// The tree over 8 micro-batches is ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). With 2 ranks each sums its own
// half here, one micro-step after the other; tree_hook() adds the two halves. Every number of ranks that is a
// power of two evaluates the same tree, and so gets the same bits.
//
// A rank's subtree is summed as a binary counter carries. The gradient of micro-batch 0 is set aside at level
// 0. Micro-batch 1 is added to it, and the pair is set aside at level 1; and so on. Price: one buffer of all
// gradients per level, log2 of the rank's micro-batches, and on average less than one addition a micro-batch.

#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/param_layout.hpp"

namespace weft::detail {

class DeterministicTree {
 public:
  /// @param micro_batches of a step, over all ranks @throws Error (usage) unless it and the number of ranks
  /// are powers of two and every rank has a micro-batch
  DeterministicTree(int micro_batches, Communicator& comm, const ParamLayout& layout);

  /// Micro-batches of each rank in a step.
  int per_rank() const { return per_rank_; }
  /// Adds to `gradient`, that of micro-batch `number` of this rank, what the tree has to its left so far.
  /// After the last micro-batch `gradient` is the sum of all of this rank.
  void add_micro_batch(ParamId id, View gradient, int number, const Stream& stream);

 private:
  int per_rank_;
  const ParamLayout& layout_;
  std::vector<Buffer> levels_;  // at level i the sum of 2^i micro-batches
};

}  // namespace weft::detail
