#pragma once
// This rank's parts of all buckets, one after the other in the order of the plan: what is left of gradients
// in windows.

#include <vector>

#include "weft/core/buffer.hpp"
#include "weft/core/stream.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

class ShardStore {
 public:
  /// @param plan of buckets that divide evenly
  /// @param on_host in pinned memory, which the device reaches
  ShardStore(const BucketPlan& plan, Device device, int ranks, bool on_host = false);

  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size_bytes()); }
  View part(std::size_t bucket) { return parts_.slice(begins_[bucket], counts_[bucket]); }
  /// part = mine, or part += mine, in the order of `lane`.
  void take(std::size_t bucket, ConstView mine, bool adds, const Stream& lane);

 private:
  std::vector<std::int64_t> begins_;  // by bucket
  std::vector<std::int64_t> counts_;
  Buffer memory_;
  View parts_;  // as the device has them
};

}  // namespace weft::detail
