#pragma once
// How a GradientReducer works: a plain value, the same on every rank.

#include <cstdint>
#include <memory>
#include <optional>

#include "weft/gradient/comm_hook.hpp"

namespace weft {

enum class Exchange { now, later };

/// Where the means are after a step: on every rank, or on each rank its part of every bucket, which costs
/// half the bytes. What follows then works on parts, and gathers what it makes of them.
enum class Means { everywhere, sharded };

/// What it means that a parameter was not marked when a step is finished.
enum class Unused {
  refuse,  ///< an Error that names it, on every rank
  /// This rank's gradient of it is zero; GradientReducer::used() tells whether another rank had one. Buckets
  /// that wait for it leave when the step is finished, and no sooner.
  find,
  /// As `find` in the first step that is exchanged. Later ones are taken to be the same, so that no bucket
  /// waits for what does not come, and an Error names the parameter where they are not.
  as_in_first_step,
};

/// What it means that ranks run out of batches at different times.
enum class Uneven {
  refuse,            ///< the others wait, and name the rank that does not come
  mean_of_all,       ///< GradientReducer::join(): who has no batch has a gradient of zero
  mean_of_the_rest,  ///< as above, divided by the number of ranks that had one
};

struct ReducerOptions {
  /// Not given: planned. The first steps try small and large ones; when they have shown when gradients are
  /// ready and how long buckets take, all ranks change to the plan that exposes least (once, at a begin_step;
  /// see bucket_planner.hpp). Where the compute thread carries the wire itself, and on a device, nothing is
  /// planned: 1 MiB within a node, where a bucket that is reduced at once is still in the cache, 25 MiB
  /// between nodes. A hook may know better (CommHook::bucket_bytes).
  std::optional<std::size_t> bucket_bytes{};
  /// The buckets, as they are: nothing is planned. Of the reducer's parameters, over any layout of them,
  /// which the reducer then has. With Means::sharded every bucket is whole cache lines, and whole blocks of
  /// the hook and of norm_block, for each rank (plan_whole_buckets). Not beside bucket_bytes.
  std::optional<BucketPlan> plan{};
  /// Gradients lie in windows: so many bytes for all buckets that are under way, in turn, instead of all
  /// gradients; at least what the largest bucket takes. A gradient is written to gradient(id, stream), which
  /// waits until whoever had the place has left it; this rank's part of the mean goes to a store of its own,
  /// means(bucket). For Means::sharded and a `plan` of whole parameters; gradients come in its order, as far
  /// as buckets share a place. Every micro-step is exchanged, and the store adds them up. Not beside
  /// fixed_parts, unused parameters or uneven batches.
  std::optional<std::size_t> window_bytes{};
  /// In windows on a device: the store of means lies in pinned host memory, which kernels reach over the bus.
  bool means_on_host = false;
  std::shared_ptr<CommHook> hook{};  ///< default: all_reduce_hook()
  Means means = Means::everywhere;
  /// Default: comm.progress_stream(), or a lane for every bucket where that stream is an inline one.
  std::optional<Stream> wire{};
  Unused unused = Unused::refuse;
  Uneven uneven = Uneven::refuse;
  /// What gradients are reduced in, where that is not what they are kept in (cast_hook).
  std::optional<DataType> reduce_dtype{};
  /// The global batch is this many micro-batches, a power of two, whatever the number of ranks (a power of
  /// two, too): each takes an equal share of them, in order, one a micro-step, and sums are taken by one
  /// fixed tree over all. Parameters are then bitwise the same on 1, 2, 4, ... ranks. 0: sums in rank order.
  /// The price is a buffer of gradients for every halving of a rank's share, one for what is on the wire, and
  /// an all_to_all and an all_gather where there was one all_reduce (bench/results).
  int fixed_parts = 0;
  /// Counts NaN and Inf in what this rank brings, bucket by bucket as they leave; GradientReducer::bad_values
  /// tells. A pass over the gradients.
  bool count_bad_values = false;
  /// Squares of the means are summed per so many elements of the flat space, as buckets land, for norms that
  /// do not depend on buckets or ranks: GradientReducer::squares(). A multiple of 64; 0: not. A pass over
  /// this rank's means.
  std::int64_t norm_block = 0;
};

}  // namespace weft
