#pragma once
// How many ranks still have batches, told at the beginning of every step.

#include <memory>

#include "weft/collectives/communicator.hpp"

namespace weft::detail {

class RestOfRanks {
 public:
  /// @param divides whether means are to be of the ranks that have a batch
  explicit RestOfRanks(bool divides) : divides_(divides) {}

  /// Collective; does not block.
  void begin_step(Communicator& comm, bool has_batch);
  const Event& told() const { return told_.event(); }
  /// Blocks until all ranks have begun the step.
  int count();
  /// Makes the mean over all ranks in `means` what it is to be, in the order of `lane`.
  void correct(View means, int ranks, Stream lane);

 private:
  bool divides_;
  std::shared_ptr<std::int32_t> left_;  // of the step under way; streams may hold an earlier one
  Stream stream_;
  Work told_;
};

}  // namespace weft::detail
