#pragma once
// Which gradients of a step are there, and which buckets wait for which.
//
// One thread uses it; another may ask for missing() at any time, for the flight record.

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/stream.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

class ReadyTracker {
 public:
  explicit ReadyTracker(const ParamLayout& layout);

  /// Between steps.
  void adopt(const BucketPlan& plan);
  void begin_step();
  /// Steps begun.
  std::uint64_t step() const { return step_.load(std::memory_order_relaxed); }

  bool knows(ParamId id) const { return index(id) < marked_in_.size(); }
  bool is_marked(ParamId id) const { return marked_in_[index(id)].load(std::memory_order_relaxed) == step(); }
  void mark(ParamId id, const Stream& stream);
  bool all_marked() const { return marked_ == marked_in_.size(); }
  bool any_marked() const { return marked_ > 0; }
  bool is_closed(std::size_t bucket) const { return unmarked_[bucket] == 0; }
  /// The first that has elements of it.
  std::size_t bucket_of(ParamId id) const { return buckets_[first_bucket_[index(id)]]; }
  /// The streams that wrote into a bucket in this step.
  const std::vector<Stream>& producers(std::size_t bucket) const { return producers_[bucket]; }

  /// In the order of registration; any thread.
  std::vector<ParamId> missing() const;
  /// "a, b, c", and "..." for those after the fifth
  static std::string names(const std::vector<ParamId>& some, const ParamLayout& layout);
  /// "3 of 8 parameters were never marked ready: a, b, c"
  static std::string list(const std::vector<ParamId>& some, const ParamLayout& layout);

 private:
  // The buckets that parameter i is in (one, but where it is divided): buckets_[first_bucket_[i]], up to
  // those of the next.
  std::vector<std::size_t> first_bucket_;
  std::vector<std::size_t> buckets_;
  std::vector<std::atomic<std::uint64_t>> marked_in_;  // by parameter: the last step it was marked in
  std::vector<std::size_t> parameters_in_;             // by bucket
  std::vector<std::size_t> unmarked_;                  // by bucket: parameters still to come
  std::vector<std::vector<Stream>> producers_;         // by bucket
  std::atomic<std::uint64_t> step_{0};
  std::size_t marked_ = 0;
};

}  // namespace weft::detail
