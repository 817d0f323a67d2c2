#pragma once
// Which gradients of a step are ready, and which buckets still wait for some.
//
// One thread uses it. Another may ask for missing() at any time, for the flight record.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/collectives/flight_recorder.hpp"
#include "weft/core/stream.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

class ReadyTracker {
 public:
  explicit ReadyTracker(const ParamLayout& layout);

  /// Between steps.
  void adopt(const BucketPlan& plan);
  void begin_step();
  /// The number of steps begun.
  std::uint64_t step() const { return step_.load(std::memory_order_relaxed); }

  bool knows(ParamId id) const { return index(id) < marked_in_.size(); }
  bool is_marked(ParamId id) const { return marked_in_[index(id)].load(std::memory_order_relaxed) == step(); }
  void mark(ParamId id, const Stream& stream);
  bool all_marked() const { return marked_ == marked_in_.size(); }
  bool any_marked() const { return marked_ > 0; }
  /// Whether all gradients of the bucket are marked.
  bool is_closed(std::size_t bucket) const { return unmarked_[bucket] == 0; }
  /// The first bucket that has elements of the parameter.
  std::size_t bucket_of(ParamId id) const { return buckets_[first_bucket_[index(id)]]; }
  /// The streams that wrote into a bucket in this step.
  const std::vector<Stream>& producers(std::size_t bucket) const { return producers_[bucket]; }

  /// Parameters that are not marked, in the order of registration. From any thread.
  std::vector<ParamId> missing() const;
  /// "a, b, c", and "..." for those after the fifth
  static std::string names(const std::vector<ParamId>& some, const ParamLayout& layout);
  /// "3 of 8 parameters were never marked ready: a, b, c"
  static std::string list(const std::vector<ParamId>& some, const ParamLayout& layout);

 private:
  // Parameter i is in buckets_[first_bucket_[i]] to buckets_[first_bucket_[i + 1] - 1]: in one bucket, or in
  // several where it is divided.
  std::vector<std::size_t> first_bucket_;
  std::vector<std::size_t> buckets_;
  std::vector<std::atomic<std::uint64_t>> marked_in_;  // by parameter: the last step it was marked in
  std::vector<std::size_t> parameters_in_;             // by bucket
  std::vector<std::size_t> unmarked_;                  // by bucket: parameters still to come
  std::vector<std::vector<Stream>> producers_;         // by bucket
  std::atomic<std::uint64_t> step_{0};
  std::size_t marked_ = 0;
};

/// What the flight record says of a reducer: its step, and the gradients that it waits for.
class ReadyNote final : public FlightNote {
 public:
  ReadyNote(std::shared_ptr<const ReadyTracker> ready, ParamLayout layout)
      : ready_(std::move(ready)), layout_(std::move(layout)) {}

  std::string json() const override;

 private:
  std::shared_ptr<const ReadyTracker> ready_;
  ParamLayout layout_;
};

}  // namespace weft::detail
