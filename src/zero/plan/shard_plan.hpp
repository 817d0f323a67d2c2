#pragma once
// Which rank keeps which elements: a plain value, from which every buffer of every rank follows.
//
// The flat space is cut into buckets and each bucket into one equal part for each rank. A part is therefore a
// range, and collectives work in place. A rank's shard is its parts one after the other, in the order of the
// plan. A unit (an FSDP unit: parameters that are gathered at once) consists of whole buckets.

#include <vector>

#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

class ShardPlan {
 public:
  struct Unit {
    std::int64_t begin = 0;  ///< elements of the flat space, [begin, end)
    std::int64_t end = 0;
    ParamId first{};                     ///< first parameter
    std::vector<std::size_t> buckets{};  ///< in ascending order of elements
    std::int64_t count() const { return end - begin; }
  };
  /// One rank's part of a bucket.
  struct Part {
    std::int64_t begin = 0;  ///< in the flat space
    std::int64_t count = 0;
    std::int64_t at = 0;  ///< offset in the rank's shard
  };

  /// @param plan buckets of whole parameters, divisible by `ranks`
  /// @param units the first parameter of each unit; empty: one unit
  /// @throws Error (usage) unless units ascend from the first parameter
  ShardPlan(BucketPlan plan, int ranks, const std::vector<ParamId>& units);

  const BucketPlan& plan() const { return plan_; }
  const ParamLayout& layout() const { return plan_.layout(); }
  int ranks() const { return ranks_; }
  const std::vector<Unit>& units() const { return units_; }
  int unit_of(ParamId id) const;
  /// The index of the bucket that begins where `bucket` does.
  std::size_t number(const Bucket& bucket) const;
  Part part(std::size_t bucket, int rank) const;
  /// Number of elements in one rank's shard.
  std::int64_t shard_elements() const { return plan_.end() / ranks_; }

 private:
  BucketPlan plan_;
  int ranks_;
  std::vector<Unit> units_;
  std::vector<std::int64_t> at_;  // by bucket
};

/// @throws Error (usage) unless units ascend from the layout's first parameter
void expect_units(const ParamLayout& layout, const std::vector<ParamId>& units);

}  // namespace weft::detail
