#pragma once
// The L2 norm of all gradients over all ranks, bitwise the same for every way of sharding.
//
// Squares are summed in f64 within each cache line, in one fixed order; lines are summed exactly
// (exact_sum.hpp). Shards, buckets, gaps between parameters and the parts of a model therefore do not change
// a bit. Cost: one read of the gradients, and an all-reduce of 184 bytes over the ranks that share and one
// over the parts. On a device the sum lies there, and is fetched once a step.

#include <memory>
#include <optional>

#include "weft/collectives/communicator.hpp"
#include "weft/core/recycled.hpp"
#include "zero/update/exact_sum.hpp"

namespace weft::detail {

/// Adds data[i]^2 by lines of 128 bytes, from the begin of `data`, which is host memory. zero/update/squares.cu is its twin on devices.
void add_squares(ConstView data, ExactSum& sum);

class GradientNorm {
 public:
  /// @param everywhere whether every rank of `comm` has all gradients; otherwise each has a shard
  /// @param whole_model ranks with the other parts of the model, whose gradients are added
  GradientNorm(Communicator comm, bool everywhere, std::optional<Communicator> whole_model = std::nullopt);

  /// Adds the values that `gradients` has when `compute`, the same for all that is added, gets here; of a device, when it gets to finish(), until
  /// which they stay. It must begin on a cache line.
  void add(ConstView gradients, const Stream& compute);
  struct Result {
    bool bad = false;  ///< some rank has NaN or infinite values
    double squares = 0;
  };
  /// The sum since the last finish(), the same on all ranks. Collective; blocks.
  Result finish(Stream compute);

 private:
  void add_waiting(Stream compute);
  void take_from_device(Stream compute);

  Communicator comm_;
  bool everywhere_;
  std::optional<Communicator> whole_model_;
  std::shared_ptr<ExactSum> sum_ = std::make_shared<ExactSum>();
  std::vector<std::int64_t> places_;
  Buffer on_device_;                   // a sum there, as ExactSum::put() writes it
  RecycledVector<ConstView> waiting_;  // to be added to it, of one type
};

}  // namespace weft::detail
