#pragma once
// The bucket plan that exposes the least communication, and what any plan would expose: pure functions.
//
// The model: gradient i is ready at a known time after backward began; a bucket can leave when all of its
// gradients are ready and the one before it has arrived; it takes latency + bytes / bandwidth. Few buckets
// wait for their last gradient, many pay the latency often; between them lies the plan whose last bucket
// arrives first. It is found exactly, in time linear in the number of parameters; and every other bucket has
// arrived as early as it can, too, for steps are not all alike.
//
//   const LinkModel link{.latency_seconds = 30e-6, .bytes_per_second = 12e9};
//   BucketPlan plan = plan_buckets(layout, ready_seconds, link);
//   std::cout << plan << forecast(plan, ready_seconds, link).exposed_seconds;
//
// Buckets are ranges of the layout. Where backward goes from its end to its beginning, so do they. Where it
// jumps (a decoder that was registered before its encoder), the ranges between the jumps leave in the order
// in which they were ready, if that is sooner; the best buckets for that order of ranges are found as
// exactly. A parameter whose gradient comes later than those before it holds up its bucket, and costs time
// but no correctness.
//
// WRONG: different times or links on different ranks: plan from what all have agreed on.

#include <limits>
#include <ostream>
#include <span>
#include <vector>

#include "weft/gradient/bucket_plan.hpp"

namespace weft {

/// What it costs to reduce a bucket over all ranks.
struct LinkModel {
  double latency_seconds = 0;   ///< of a bucket, however small
  double bytes_per_second = 0;  ///< of gradient, not of what the wire carries for it

  double seconds(double bytes) const { return latency_seconds + bytes / bytes_per_second; }
  struct Sample {
    double bytes;
    double seconds;
  };
  /// The line through points (bytes, seconds) with the least squared relative error; latency and rate are
  /// never negative. @throws Error (usage) for fewer than two different sizes, or times that are none
  static LinkModel fit(std::span<const Sample> samples);
};

/// What a plan is made from, as all ranks have agreed on it.
struct BackwardProfile {
  std::vector<double> ready_seconds;  ///< by parameter
  LinkModel link;

  /// {"dtype", "link": {"latency_seconds", "bytes_per_second"}, "parameters": [{"name", "count",
  /// "ready_seconds"}]}: what `weft-plan buckets` reads.
  std::string to_json(const ParamLayout& layout) const;
};

/// @param ready_seconds by parameter: when its gradient is complete, from the beginning of backward
/// @param most_bytes of a bucket of several parameters. A smaller limit costs latencies, and loses less when
/// a gradient comes later than expected
/// @throws Error (usage) when there is not one time for each parameter, a time or the link makes no sense
BucketPlan plan_buckets(const ParamLayout& layout, std::span<const double> ready_seconds,
                        const LinkModel& link,
                        std::size_t most_bytes = std::numeric_limits<std::size_t>::max());

/// When a bucket is there, leaves and has arrived.
struct BucketTimes {
  double ready = 0;
  double begin = 0;
  double end = 0;
};

struct Forecast {
  std::vector<BucketTimes> buckets;  ///< in the order in which they leave
  double backward_seconds = 0;       ///< the last gradient
  double exposed_seconds = 0;        ///< from there to the last bucket's end
  double link_busy_seconds = 0;

  /// A line per bucket, and a last one with the sums.
  friend std::ostream& operator<<(std::ostream& out, const Forecast& forecast);
};

/// What a plan would do.
Forecast forecast(const BucketPlan& plan, std::span<const double> ready_seconds, const LinkModel& link);

}  // namespace weft
