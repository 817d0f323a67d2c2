#pragma once
// Averages gradients over ranks, bucket by bucket, while backward still runs.
//
// The reducer owns the gradients: one arena of the layout, in memory that the communicator reaches without a
// copy. Backward writes a gradient into `gradient(id)` and calls `mark_ready(id, stream)`; a bucket closes
// with its last gradient and leaves in plan order, the same on every rank. After `finish_step` the stream
// given to it sees the mean in place. One thread uses a reducer. The construction and every step are
// collective.
//
//   GradientReducer reducer(comm, ParamLayout::of(model.parameters()));
//   for (const Batch& batch : data) {
//     reducer.begin_step();
//     model.backward(batch, compute, [&](ParamId id) { reducer.mark_ready(id, compute); });
//     reducer.finish_step(compute);               // the stream waits, the host does not
//     optimizer.step(reducer.gradients(), compute);
//   }
//
// Accumulation over micro-steps: begin_step(Exchange::later) for all but the last. While accumulating() is
// true, backward adds to what is there instead of overwriting it; the last micro-step exchanges the sum and
// divides by their number.
//
// In windows (ReducerOptions::window_bytes) there is no arena: every gradient is written to
// gradient(id, compute), asked for in the step, and nothing accumulates there.
//
// Better, for an optimizer that takes its step in pieces: finish_step(compute, [&](const Bucket& bucket) {
//   compute.run([&] { optimizer.update(bucket.begin, bucket.end); }); });
//
// WRONG: reading gradient(id) right after mark_ready(id): its bucket may be on the wire. Every parameter is
// marked once per step; twice, or never, is an Error that names it, and all ranks get it: the communicator is
// then broken.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "weft/gradient/bad_values.hpp"
#include "weft/gradient/bucket_planner.hpp"
#include "weft/gradient/reducer_options.hpp"
#include "weft/gradient/step_account.hpp"

namespace weft {

/// Submits work on one reduced bucket to the stream that finish_step was given. Not called for
/// Exchange::later.
using BucketConsumer = std::function<void(const Bucket&)>;
/// Is told of a bucket of an exchanged step when the host has handed it to the wire. `reduced` is done when
/// means(bucket) are there.
using ReducedListener = std::function<void(const Bucket&, const Event& reduced)>;

class GradientReducer {
 public:
  /// Collective. @throws Error (mismatch) naming two ranks whose layouts, options or plans differ
  GradientReducer(Communicator comm, const ParamLayout& layout, ReducerOptions options = {});
  /// Finishes what is on a wire of its own; before it goes, synchronize one that was given.
  ~GradientReducer();
  GradientReducer(GradientReducer&&) noexcept;

  const ParamLayout& layout() const;
  /// May change at a begin_step; its buckets stay valid as long as the reducer.
  const BucketPlan& plan() const;
  /// What the plan was made from, once it was.
  const std::optional<BackwardProfile>& profile() const;
  /// The arena, of the layout. @throws Error (usage) where gradients lie in windows; the next one, too
  View gradients();
  View gradient(ParamId id);
  /// Where work of `compute` may write the gradient in this step, until it is marked ready. In windows,
  /// `compute` waits for whoever had the place; an inline stream of the host does so in the call. @throws
  /// Error (usage), in windows, outside a step and after mark_ready; on all ranks when the place is still
  /// that of gradients which were not marked, naming them
  View gradient(ParamId id, Stream compute);
  /// The part of a bucket of plan() that holds means on this rank after a step. Sharded, all ranks' parts are
  /// equally long and follow each other, and the last of the first bucket may end beyond the layout.
  View means(const Bucket& bucket);

  /// @throws Error (usage) when the step before was not finished, naming parameters that were not marked
  void begin_step(Exchange exchange = Exchange::now);
  /// Whether this micro-step adds to gradients of earlier ones. Not with fixed_parts and in windows: the
  /// reducer adds.
  bool accumulating() const;
  /// The gradient is complete once `stream` gets here. @throws Error (usage) outside a step, or when marked
  /// before
  void mark_ready(ParamId id, const Stream& stream);
  /// The same of a gradient that lies elsewhere, which `stream` copies into the arena, or adds while
  /// accumulating(). @throws Error (usage), on every rank, when it has another shape or data type than the
  /// layout says
  void mark_ready(ParamId id, ConstView gradient, const Stream& stream);
  /// Progresses communication on an inline wire; mark_ready does so too. Worth a call between two kernels of
  /// a backward pass: the sooner a bucket is reduced, the more of it is still in the cache.
  void poll();
  /// Later work of `stream` sees the means. @throws Error (usage) naming the parameters that were never
  /// marked, unless options say what that means
  void finish_step(Stream stream) { finish_step(std::move(stream), nullptr); }
  /// As above, and as soon as `stream` has waited for one bucket it goes on with what `consume` submits for
  /// it, in plan order: an optimizer then works on the first buckets while the last are under way, and a rank
  /// that is early waits only for what it needs next.
  void finish_step(Stream stream, const BucketConsumer& consume);
  /// For work that need not wait for finish_step, on streams of its own. Called in mark_ready and
  /// finish_step, in plan order. Set between steps; null: nobody listens. ShardedOptimizer does where state
  /// is offloaded.
  void on_reduced(ReducedListener listener);
  /// For a rank that has no more batches: takes part in the others' steps, with gradients of zero, until no
  /// rank has any. `each` is called after each of these steps, when `stream` has the means: an optimizer that
  /// takes the same step keeps parameters equal. Collective at the end: every rank calls it. Blocks.
  void join(Stream stream, const std::function<void()>& each = nullptr);

  /// Whether any rank had a gradient of it in the last step that was exchanged. Blocks until that is known.
  bool used(ParamId id);
  /// With count_bad_values, of the last step that was exchanged: the ranks that brought NaN or infinite
  /// values. Waits for all ranks to finish it; the next begin_step does so, too, and logs what is this
  /// rank's.
  const std::vector<BadValues>& bad_values();
  /// With norm_block, once finish_step's stream has the means: sums of squares, f64, by block of the flat
  /// space, where the gradients are. Sharded, zero for blocks of other ranks: an all_reduce(sum) is exact.
  ConstView squares() const;

  /// Seconds that compute streams have waited for communication so far: waiting in finish_step, and on an
  /// inline wire the communication carried out within mark_ready. Of a device, what it has passed so far.
  double exposed_seconds() const;
  /// Bytes of gradients and windows on this rank; what hooks keep is not counted.
  std::int64_t held_bytes() const;
  /// Bytes of pinned host memory: of the means, with means_on_host.
  std::int64_t host_bytes() const;
  /// This rank's accounts of the exchanged steps since the last call (or change of plan), at most 127. Of
  /// compute streams of the host. Collective, between steps; blocks.
  StepHistory account();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
