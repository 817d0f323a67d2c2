#pragma once
// Where the buckets of a plan lie in memory that does not hold all of them: a plain value.
//
// Every bucket has its place before the first step and keeps it as long as the plan. Which places overlap is
// chosen so that a bucket is written over memory that has been unused for longest: buckets of which two fill
// the memory take its two ends in turn, and small ones follow each other like a ring.

#include <cstdint>
#include <vector>

#include "weft/gradient/bucket_plan.hpp"
#include "weft/gradient/gradient_space.hpp"

namespace weft::detail {

class RingPlaces {
 public:
  /// @param capacity elements of the memory; raised to what the largest bucket takes, lowered to what all
  /// buckets take
  RingPlaces(const BucketPlan& plan, std::int64_t capacity);

  /// Elements of the memory.
  std::int64_t size() const { return size_; }
  /// The place of a bucket's first element, counted from the memory's begin.
  std::int64_t begin(std::size_t bucket) const { return begins_[bucket]; }
  /// The buckets whose memory a bucket takes over, in ascending order: buckets that leave before it in the
  /// same step, and buckets of the step before. If several had an element, only the last of them counts.
  const std::vector<std::size_t>& after(std::size_t bucket) const { return after_[bucket]; }
  const std::vector<std::size_t>& after_last_step(std::size_t bucket) const {
    return after_last_step_[bucket];
  }
  /// For a GradientSpace.
  std::vector<GradientSpace::Place> places(const BucketPlan& plan) const;

 private:
  std::int64_t size_ = 0;
  std::vector<std::int64_t> begins_;
  std::vector<std::vector<std::size_t>> after_;
  std::vector<std::vector<std::size_t>> after_last_step_;
};

/// The number of elements of a ring of about `bytes` bytes: whole cache lines, at least the largest bucket, at
/// most all buckets.
std::int64_t ring_elements(const BucketPlan& plan, std::size_t bytes);

}  // namespace weft::detail
