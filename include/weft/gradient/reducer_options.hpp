#pragma once
// How a GradientReducer works: a plain value, the same on every rank.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "weft/gradient/comm_hook.hpp"

namespace weft {

/// What a step does with its gradients.
enum class Exchange {
  now,  ///< reduce them over ranks, with those of the micro-steps before
  /// Keep them for a later micro-step to reduce: a step of gradient accumulation, as under DDP's no_sync().
  /// Ranks do not communicate. In a bucket ring they do, because gradients cannot stay there; the means are
  /// complete after the last micro-step all the same.
  no_sync,
};

/// Where the means are after a step: all on every rank, or on each rank its part of every bucket (a
/// reduce_scatter). Parts cost half the bytes; the optimizer then updates parts, and gathers the parameters.
enum class Means { everywhere, sharded };

/// What finish_step does about parameters that were not marked.
enum class Unused {
  refuse,  ///< throws an Error that names them, on every rank
  /// Takes this rank's gradient to be zero; GradientReducer::used() tells whether another rank had one.
  /// Buckets that wait for such a parameter leave only in finish_step.
  find,
  /// As `find` in the first exchanged step. In later steps the same parameters are taken to be unused from
  /// the start, so that no bucket waits for them. An Error names a parameter that is used otherwise then.
  as_in_first_step,
};

/// What happens when ranks run out of batches at different times.
enum class Uneven {
  refuse,            ///< the other ranks wait, until a timeout names the missing rank
  mean_of_all,       ///< GradientReducer::join(): a rank without a batch has gradients of zero
  mean_of_the_rest,  ///< as above, divided by the number of ranks that have a batch
};

/// Buckets that the reducer plans. The first steps try small and large buckets. They show when gradients are
/// ready, and how long buckets take. From that all ranks make the plan that exposes least, and change to it
/// once, at a begin_step (see bucket_planner.hpp). Nothing is planned on a device, and where the compute
/// thread carries the wire itself. Buckets are then 1 MiB within a node, where a bucket that is reduced at
/// once is still in the cache, and 25 MiB between nodes. A hook may give another size
/// (CommHook::bucket_bytes).
struct PlannedBuckets {};
/// Buckets of one size.
struct BucketBytes {
  std::size_t bytes = 0;
};
/// Buckets that leave in the order in which the first exchanged step completed them, rather than from the end of
/// the layout: where parameters lie by kind and backward goes by layer. What is complete on one rank counts where
/// it was last. Made as by plan_buckets(), which keeps neighbours together: large parameters are `alone`.
/// Price, once, at the beginning of the second exchanged step: an all_reduce of 4 bytes per bucket, which blocks.
struct BucketsAsSeen {
  std::size_t bytes = std::size_t{1} << 20;
  std::size_t alone = std::size_t{64}
                      << 10;  ///< parameters of so many bytes or more have a bucket of their own
};
/// A BucketPlan gives the buckets, which are then never changed. The plan is over the reducer's parameters, in
/// any layout of them, which becomes that of the reducer. With Means::sharded every rank's part of a bucket
/// must be whole cache lines, and whole blocks of the hook and of norm_block (plan_whole_buckets).
using BucketChoice = std::variant<PlannedBuckets, BucketBytes, BucketPlan, BucketsAsSeen>;

/// Gradients lie in a bucket ring: a buffer of so many bytes, at least those of the largest bucket, which
/// buckets use in turn, instead of an arena of all gradients. A gradient is written to gradient(id, stream),
/// which waits until its place is free. This rank's part of the means is kept apart, in means(bucket). Needs
/// Means::sharded and a BucketPlan of whole parameters. Gradients that come before their turn lie aside, in memory
/// of their size. Every micro-step is reduced, and means(bucket) adds them up. Not with unused
/// parameters, uneven batches or a hook that sums micro-batches (tree_hook).
struct BucketRing {
  std::size_t bytes = 0;
  /// On a device: the means lie in pinned host memory, which kernels reach over the bus.
  bool means_on_host = false;
};

struct ReducerOptions {
  BucketChoice buckets{};
  std::optional<BucketRing> ring{};  ///< nullopt: an arena of all gradients
  /// How a bucket is reduced: all_reduce_hook(), unless it is given. cast_hook() reduces in another data type,
  /// tree_hook() sums one fixed tree of micro-batches; codecs are on the compression floor.
  std::shared_ptr<CommHook> hook{};
  Means means = Means::everywhere;
  /// The stream that reduces buckets. Default: comm.progress_stream(); where that is an inline stream, one
  /// such stream per bucket, up to 32.
  std::optional<Stream> wire{};
  Unused unused = Unused::refuse;
  Uneven uneven = Uneven::refuse;
  /// Counts NaN and Inf in this rank's gradients as buckets leave, for GradientReducer::bad_values(). Price:
  /// a pass over the gradients.
  bool count_bad_values = false;
  /// Sums squares of the means per block of so many elements of the flat space, a multiple of 64, for norms
  /// that do not depend on buckets or ranks: GradientReducer::squares(). 0: does not. Price: a pass over this
  /// rank's means.
  std::int64_t norm_block = 0;
  /// Micro-batches of a step over all ranks. Ranks share them out, and some have one more than others if need
  /// be; the mean is over all of them. A rank that has none takes a micro-step with gradients of zero, and in a
  /// bucket ring every rank takes as many micro-steps as the others. 0: each rank has as many as the others.
  /// Price of uneven shares: two more passes over the means; and the sum of so many must not overflow.
  std::int64_t micro_batches = 0;
};

}  // namespace weft
