#pragma once
// Gradients in a bucket ring: the places of buckets, which streams may write there, and the parts of the
// means that this rank keeps when a bucket has left its place.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gradient/bucket_ring/ring_places.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/event.hpp"
#include "weft/core/stream.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

/// Elements [begin, end) that belong to no parameter, rising, counted from the bucket's first element.
using Gaps = std::vector<std::pair<std::int64_t, std::int64_t>>;
Gaps gaps_of(const Bucket& bucket, const ParamLayout& layout);

/// This rank's parts of the means of all buckets, one after the other in plan order.
class ShardStore {
 public:
  /// @param plan its buckets divide evenly over the ranks @param on_host whether the memory is pinned memory
  /// of the host, which the device's kernels reach over the bus
  ShardStore(const BucketPlan& plan, Device device, int ranks, bool on_host = false);

  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size_bytes()); }
  View part(std::size_t bucket) { return parts_.slice(begins_[bucket], counts_[bucket]); }
  /// part = mine, or part += mine if `adds`, in the order of `lane`.
  void store(std::size_t bucket, ConstView mine, bool adds, const Stream& lane);

 private:
  std::vector<std::int64_t> begins_;  // by bucket
  std::vector<std::int64_t> counts_;
  Buffer memory_;
  View parts_;  // memory_ under the device's addresses
};

class RingGradients {
 public:
  /// @param capacity elements of the ring
  RingGradients(const BucketPlan& plan, std::int64_t capacity, Device device, int ranks,
                bool means_on_host = false);

  const RingPlaces& places() const { return ring_; }
  ShardStore& store() { return store_; }

  /// @param reduced by bucket, the events after which buckets of the last micro-step have left their places.
  /// Taken over as earlier(), and reset
  void begin_micro_step(std::vector<Event>& reduced);
  const std::vector<Event>& earlier() const { return earlier_; }
  /// Whether `stream` already waits for a bucket's place in this micro-step. From this call on it counts as
  /// waiting.
  bool admits(std::size_t bucket, const Stream& stream);
  void ask(ParamId id) { asked_[index(id)] = true; }
  bool was_asked(ParamId id) const { return asked_[index(id)]; }

  /// Memory for a gradient that comes before its place is free, such as that of a layer below one whose weights are tied
  /// to it. Kept for later steps.
  View aside(ParamId id, std::int64_t count);
  /// Whether aside() was asked for in this micro-step, and the gradient has not gone to its place.
  bool is_aside(ParamId id) const;
  /// Its gradient is complete there once `stream` gets to this point.
  void hold(ParamId id, const Stream& stream);
  bool holds(ParamId id) const;
  /// Takes one of those that are held, and may go to their place. @param may_go whether a place is free
  template <class MayGo>
  std::optional<std::pair<ParamId, Stream>> next_held(MayGo&& may_go) {
    const auto found = std::ranges::find_if(held_, [&](const auto& one) { return may_go(one.first); });
    if (found == held_.end()) return std::nullopt;
    auto one = *found;
    held_.erase(found);
    asides_.at(one.first).is_used = false;
    return one;
  }
  View memory_aside(ParamId id) { return asides_.at(id).memory.view(); }
  std::int64_t bytes_aside() const;

  /// Sets what lies between a bucket's parameters to zero, as it is in an arena. In a bucket ring the memory
  /// may hold values of other buckets.
  void clear_gaps(std::size_t bucket, View gradient, const Stream& lane) const;

 private:
  RingPlaces ring_;
  ShardStore store_;
  std::vector<Gaps> gaps_;                     // by bucket
  std::vector<Event> earlier_;                 // by bucket
  std::vector<std::vector<Stream>> admitted_;  // by bucket, in this micro-step
  std::vector<bool> asked_;                    // by parameter, in this micro-step
  struct Aside {
    Buffer memory{};
    bool is_used = false;  // in this micro-step
  };
  Device device_;
  DataType dtype_;
  std::map<ParamId, Aside> asides_;
  std::vector<std::pair<ParamId, Stream>> held_;  // in the order in which they came
};

}  // namespace weft::detail
