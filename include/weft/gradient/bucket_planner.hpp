#pragma once
// The bucket plan that exposes least communication, and a forecast of what a plan exposes: pure functions.
//
// The model: gradient i is ready at a known time after backward began. A bucket can leave when all of its
// gradients are ready and the bucket before it has arrived. It takes latency + bytes / bandwidth. Few large
// buckets wait long for their last gradient; many small ones pay the latency often. plan_buckets() finds the
// plan whose last bucket arrives first. The result is exact, in time linear in the number of parameters.
// Every other bucket arrives as early as it can, too, which leaves slack for steps that go otherwise.
//
//   const LinkModel link{.latency_seconds = 30e-6, .bytes_per_second = 12e9};
//   BucketPlan plan = plan_buckets(layout, ready_seconds, link);
//   std::cout << plan << forecast(plan, ready_seconds, link).exposed_seconds;
//
// Buckets are ranges of the layout. Where backward goes from the layout's end to its beginning, buckets do
// so, too. Backward may jump, as when a decoder was registered before its encoder. Then the ranges between
// the jumps leave in the order in which they are ready, if that ends sooner. The buckets are the best for
// that order of ranges, too. A parameter whose gradient is late holds up its bucket, which costs time and
// changes no result.
//
// WRONG: different times or links on different ranks. All ranks must plan from the same values.

#include <limits>
#include <ostream>
#include <span>
#include <vector>

#include "weft/gradient/bucket_plan.hpp"

namespace weft {

/// The cost of reducing a bucket over all ranks.
struct LinkModel {
  double latency_seconds = 0;   ///< per bucket, however small
  double bytes_per_second = 0;  ///< bytes of gradients, not the bytes that are sent for them

  double seconds(double bytes) const { return latency_seconds + bytes / bytes_per_second; }
  struct Sample {
    double bytes;
    double seconds;
  };
  /// The line through points (bytes, seconds) with the least squared relative error. Latency and rate are
  /// never negative. @throws Error (usage) for fewer than two different sizes, or a time that is not positive
  static LinkModel fit(std::span<const Sample> samples);
};

/// The values that a plan is made from, the same on all ranks.
struct BackwardProfile {
  std::vector<double> ready_seconds;  ///< by parameter
  LinkModel link;

  /// {"dtype", "link": {"latency_seconds", "bytes_per_second"}, "parameters": [{"name", "count",
  /// "ready_seconds"}]}: the input of `weft-plan buckets`.
  std::string to_json(const ParamLayout& layout) const;
};

/// @param ready_seconds by parameter: when its gradient is complete, from the beginning of backward
/// @param most_bytes the limit of a bucket of several parameters. A smaller limit pays the latency more
/// often, and loses less when a gradient comes later than expected
/// @throws Error (usage) when there is not one time for each parameter, a time or the link makes no sense
BucketPlan plan_buckets(const ParamLayout& layout, std::span<const double> ready_seconds,
                        const LinkModel& link,
                        std::size_t most_bytes = std::numeric_limits<std::size_t>::max());

/// When a bucket is ready, leaves and has arrived, in seconds.
struct BucketTimes {
  double ready = 0;
  double begin = 0;
  double end = 0;
};

struct Forecast {
  std::vector<BucketTimes> buckets;  ///< in the order in which they leave
  double backward_seconds = 0;       ///< when the last gradient is ready
  double exposed_seconds = 0;        ///< from then to the end of the last bucket
  double link_busy_seconds = 0;

  /// A line per bucket, and a last one with the sums.
  friend std::ostream& operator<<(std::ostream& out, const Forecast& forecast);
};

/// Evaluates a plan under the model.
Forecast forecast(const BucketPlan& plan, std::span<const double> ready_seconds, const LinkModel& link);

}  // namespace weft
