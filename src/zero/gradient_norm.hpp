#pragma once
// The length of all gradients over all ranks, exactly: squares are summed by cache line in one fixed order,
// and lines without rounding. Shards, buckets, gaps between parameters and the parts that a model is cut into
// do not change a bit of it.

#include <memory>
#include <optional>

#include "weft/collectives/communicator.hpp"
#include "zero/exact_sum.hpp"

namespace weft::detail {

/// data[i]^2, summed by lines of 128 bytes from its begin on. Host memory.
void add_squares(ConstView data, ExactSum& sum);

class GradientNorm {
 public:
  /// @param everywhere whether every rank of `comm` has all its gradients; else each has a part
  /// @param whole_model ranks whose `comm`s have different gradients, which are summed up, too
  GradientNorm(Communicator comm, bool everywhere, std::optional<Communicator> whole_model = std::nullopt);

  /// The values that `gradients` has when `compute` gets here, part of this step. From a cache line's begin.
  void add(ConstView gradients, const Stream& compute);
  struct Result {
    bool bad = false;  ///< NaN or infinite values on some rank
    double squares = 0;
  };
  /// Of this step's. The same on all ranks. Collective; blocks.
  Result finish(Stream compute);

 private:
  Communicator comm_;
  bool everywhere_;
  std::optional<Communicator> whole_model_;
  std::shared_ptr<ExactSum> sum_ = std::make_shared<ExactSum>();
  std::vector<std::int64_t> places_;
  Buffer line_squares_;  // on a device, grown as needed
  Buffer on_host_;
};

}  // namespace weft::detail
