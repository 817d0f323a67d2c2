#pragma once
// What a reducer has where gradients lie in windows: their places, who may write there, and the parts that
// are left of them.

#include <vector>

#include "gradient/gaps.hpp"
#include "gradient/shard_store.hpp"
#include "gradient/windows.hpp"
#include "weft/core/event.hpp"

namespace weft::detail {

class InWindows {
 public:
  /// @param capacity elements of the windows
  InWindows(const BucketPlan& plan, std::int64_t capacity, Device device, int ranks,
            bool means_on_host = false);

  const Windows& places() const { return windows_; }
  ShardStore& store() { return store_; }

  /// @param reduced by bucket: when those of the micro-step before have left their places; taken
  void begin_micro_step(std::vector<Event>& reduced);
  const std::vector<Event>& earlier() const { return earlier_; }
  /// Whether `stream` waits for a bucket's place; from now on it does.
  bool admits(std::size_t bucket, const Stream& stream);
  void ask(ParamId id) { asked_[index(id)] = true; }
  bool was_asked(ParamId id) const { return asked_[index(id)]; }

  /// What lies between a bucket's parameters was others': as in an arena, it is zero.
  void clear_gaps(std::size_t bucket, View gradient, const Stream& lane) const;

 private:
  Windows windows_;
  ShardStore store_;
  std::vector<Gaps> gaps_;                     // by bucket
  std::vector<Event> earlier_;                 // by bucket
  std::vector<std::vector<Stream>> admitted_;  // by bucket, in this micro-step
  std::vector<bool> asked_;                    // by parameter, in this micro-step
};

}  // namespace weft::detail
