#pragma once
// Averages gradients over ranks, bucket by bucket, while backward still runs.
//
// The reducer owns the gradients: one buffer of the layout (the arena), in memory that the communicator
// reaches without a copy. Backward writes a gradient into `gradient(id)` and calls `mark_ready(id, stream)`.
// A bucket is complete with its last gradient; buckets leave in plan order, the same on every rank. After
// `finish_step` the stream given to it sees the means in place. A reducer is used by one thread at a time: a call
// while another thread is in one is an Error that names both. Its construction and every step are collective.
//
//   GradientReducer reducer(comm, ParamLayout::of(model.parameters()));
//   for (const Batch& batch : data) {
//     reducer.begin_step();
//     model.backward(batch, compute, [&](ParamId id) { reducer.mark_ready(id, compute); });
//     reducer.finish_step(compute);               // the stream waits, the host does not
//     optimizer.step(reducer.gradients(), compute);
//   }
//
// Gradient accumulation over micro-steps: begin_step(Exchange::no_sync) for all but the last. While
// accumulating() is true, backward adds to the gradient that is there instead of overwriting it. The last
// micro-step reduces the sum and divides by the number of micro-steps.
//
// In a bucket ring (ReducerOptions::ring) there is no arena: every gradient is written to
// gradient(id, compute), asked for in each step, and backward does not accumulate there.
//
// Better, for an optimizer that can update one bucket at a time:
//
//   reducer.finish_step(compute, [&](const Bucket& bucket) {
//     compute.run([&] { optimizer.update(bucket.begin, bucket.end); });
//   });
//
// WRONG: reading gradient(id) right after mark_ready(id): its bucket may be on the wire. Every parameter is
// marked once per step. Marking one twice, or never, is an Error that names it, on all ranks, after which the
// communicator cannot be used any more.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "weft/gradient/bad_values.hpp"
#include "weft/gradient/bucket_planner.hpp"
#include "weft/gradient/reducer_options.hpp"
#include "weft/gradient/step_account.hpp"

namespace weft {

/// Submits work on one reduced bucket to the stream that finish_step was given. Not called in a micro-step
/// with Exchange::no_sync.
using BucketConsumer = std::function<void(const Bucket&)>;
/// Called for each bucket of an exchanged step once the host has submitted its reduction. `reduced` is done
/// when means(bucket) are there.
using ReducedListener = std::function<void(const Bucket&, const Event& reduced)>;

class GradientReducer {
 public:
  /// Collective. @throws Error (mismatch) naming two ranks whose layouts, options or plans differ; (usage), on every
  /// rank, naming a parameter whose storage the layout knows and that another reducer of this process has
  GradientReducer(Communicator comm, const ParamLayout& layout, ReducerOptions options = {});
  /// Waits for the work on the wire. While an exception is unwinding it does not wait, and drops the work on
  /// a wire of its own.
  ~GradientReducer();
  GradientReducer(GradientReducer&&) noexcept;

  const ParamLayout& layout() const;
  /// May change at a begin_step. References to buckets stay valid as long as the reducer.
  const BucketPlan& plan() const;
  /// The values that the plan was made from; nullopt before it was, or if the options give the buckets.
  const std::optional<BackwardProfile>& profile() const;
  /// The arena, and one parameter's part of it. @throws Error (usage) where gradients lie in a bucket ring
  View gradients();
  View gradient(ParamId id);
  /// Where work of `compute` may write the gradient in this step, until it is marked ready. In a bucket ring,
  /// `compute` waits until the buckets that had the place before have left it; if it is an inline stream of
  /// the host, the call itself waits. Where such a bucket still misses gradients, it is memory aside, from which
  /// the gradient goes to its place later. @throws Error (usage), in a bucket ring: outside a step, or after
  /// mark_ready
  View gradient(ParamId id, Stream compute);
  /// The part of a bucket of plan() that holds means on this rank after a step. With Means::sharded, all
  /// ranks' parts are equally long and follow each other; that of the last rank in the first bucket may end
  /// beyond the layout.
  View means(const Bucket& bucket);

  /// @throws Error (usage) when the last step was not finished, naming parameters that were not marked
  void begin_step(Exchange exchange = Exchange::now);
  /// Whether backward must add to the gradients of earlier micro-steps. False with a tree of
  /// micro-batches and in a bucket ring, where the reducer adds.
  bool accumulating() const;
  /// Says that the gradient is complete once `stream` gets to this point.
  /// @throws Error (usage) outside a step, or when it was marked before
  void mark_ready(ParamId id, const Stream& stream);
  /// The same for a gradient in other memory: `stream` copies it to its place, or adds it if accumulating().
  /// @throws Error (usage), on every rank, when its count or data type is not that of the layout
  void mark_ready(ParamId id, ConstView gradient, const Stream& stream);
  /// The same for a gradient in memory that the communicator reaches (Communicator::allocate()): it is reduced
  /// where it lies, without a copy, and gradient(id) then has no mean. That takes whole cache lines, a bucket of
  /// its own (plan_buckets() with `alone`), a hook that reduces anywhere, an arena with means everywhere, and a
  /// first micro-step that exchanges; else it is copied. Ranks may differ in that. The memory is the reducer's until
  /// the stream of finish_step has the means, or until the reducer goes. @returns where the mean will be
  /// @throws Error (usage), on every rank, as above
  View mark_ready_in_place(ParamId id, View gradient, const Stream& stream);
  /// Progresses communication on an inline wire; mark_ready does so, too. Worth a call between two kernels of
  /// a backward pass: the sooner a bucket is reduced, the more of it is still in the cache.
  void poll();
  /// Later work of `stream` sees the means. @throws Error (usage) naming the parameters that were not marked,
  /// if ReducerOptions::unused is Unused::refuse
  void finish_step(Stream stream) { finish_step(std::move(stream), nullptr); }
  /// As above. As soon as `stream` has waited for a bucket, it runs what `consume` submits for it, in plan
  /// order. An optimizer so updates the first buckets while the last ones are still on the wire.
  void finish_step(Stream stream, const BucketConsumer& consume);
  /// Sets a listener for work that need not wait for finish_step and has streams of its own. It is called in
  /// mark_ready and finish_step, in plan order. Set it between steps; null removes it. ShardedOptimizer uses
  /// it where optimizer state is offloaded.
  void on_reduced(ReducedListener listener);
  /// For a rank that has no more batches: takes part in the others' steps, with gradients of zero, until no
  /// rank has a batch. `each` is called after each of these steps, when the means are there; take the
  /// optimizer's step in it, and parameters stay equal on all ranks. Every rank ends with join(). Blocks.
  void join(Stream stream, const std::function<void()>& each = nullptr);

  /// Whether any rank had a gradient of it in the last exchanged step. Blocks until that is known.
  bool used(ParamId id);
  /// With count_bad_values: the ranks that had NaN or infinite values in the last exchanged step. Blocks
  /// until all ranks have finished it. The next begin_step does so, too, and logs this rank's values.
  const std::vector<BadValues>& bad_values();
  /// As ReducerOptions::count_bad_values from the next step on, for a caller that says itself what was found:
  /// nothing is logged. All ranks call it between the same steps.
  void count_bad_values();
  /// With count_bad_values, where finish_step() comes long after the last mark_ready(), as behind other work: the counts leave now, so that
  /// finish_step() need not wait until all ranks are in theirs. All ranks call it, in the same steps, once every parameter is marked. Does not
  /// block; poll() progresses it. @throws Error (usage) before that, a second time in one step, or where nothing is counted
  void share_bad_values();
  /// With norm_block, once finish_step's stream has the means: their sums of squares, f64, by block of the
  /// flat space, in the gradients' kind of memory. With Means::sharded, blocks of other ranks are zero, so
  /// that an all_reduce(sum) is exact.
  ConstView squares() const;

  /// What the hook's later steps go on from, for a checkpoint: residuals of error feedback, each rank's own, and what PowerSGD keeps. Copies;
  /// nothing for a hook without state. All ranks call it, between steps.
  checkpoint::State state();
  /// Collective, between steps. Goes on from what state() gave: bitwise with the same ranks and buckets. After another number of ranks each
  /// rank has the mean of their residuals, so that nothing of the gradients is lost. State of another hook is dropped, which is logged.
  template <class Checkpoint>
  void load_state(const Checkpoint& from) {
    load_state(from.values(), [&from](std::span<const checkpoint::Wanted> wanted) { from.read(wanted); });
  }
  void load_state(const checkpoint::Values& values, const checkpoint::Reader& read);

  /// Seconds that compute streams have waited for communication so far: in finish_step, in gradient() of a
  /// bucket ring, and, with an inline wire, for the communication that mark_ready and poll carry out. On a
  /// device, the waits that its streams have already passed.
  double exposed_seconds() const;
  /// Bytes of gradients, or of the bucket ring, on this rank, without what hooks keep.
  std::int64_t held_bytes() const;
  /// Bytes of pinned host memory: the means, with means_on_host.
  std::int64_t host_bytes() const;
  /// This rank's accounts of the exchanged steps since the last call (or change of plan), at most 127.
  /// Collective, between steps; blocks; on a device until it has finished these steps.
  StepHistory account();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
