#pragma once
// This rank's share of a fixed number of micro-batches, summed as its branch of the tree over all of them.
//
// As a binary counter carries: after part 0 its gradient is set aside; part 1 is added to it, and the pair is
// set aside one level up; and so on. A level's gradients are those of the parts before, so they go left of
// what is added, which for two summands makes no difference.

#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/param_layout.hpp"

namespace weft::detail {

class FixedParts {
 public:
  /// @throws Error (usage) unless both are powers of two and every rank has a part
  FixedParts(int parts, Communicator& comm, const ParamLayout& layout);

  /// Of each rank, in a step.
  int here() const { return here_; }
  /// `gradient`, of micro-batch `part` of this rank's, joins those before it; after the last it is the sum.
  void fold(ParamId id, View gradient, int part, const Stream& stream);

 private:
  int here_;
  const ParamLayout& layout_;
  std::vector<Buffer> levels_;
};

}  // namespace weft::detail
