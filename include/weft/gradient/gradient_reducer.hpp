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
// Better, for an optimizer that takes its step in pieces: finish_step(compute, [&](const Bucket& bucket) {
//   compute.run([&] { optimizer.update(bucket.begin, bucket.end); }); });
//
// WRONG: reading gradient(id) right after mark_ready(id): its bucket may be on the wire. Every parameter is
// marked once per step; twice, or never, is an Error that names it.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "weft/gradient/bucket_planner.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {

enum class Exchange { now, later };

/// Where the means are after a step: on every rank, or on each rank its part of every bucket, which costs
/// half the bytes. What follows then works on parts, and gathers what it makes of them.
enum class Means { everywhere, sharded };

struct ReducerOptions {
  /// Not given: planned. The first steps try small and large ones; when they have shown when gradients are
  /// ready and how long buckets take, all ranks change to the plan that exposes least (once, at a begin_step;
  /// see bucket_planner.hpp). Where the compute thread carries the wire itself, and on a device, nothing is
  /// planned: 1 MiB within a node, where a bucket that is reduced at once is still in the cache, 25 MiB
  /// between nodes.
  std::optional<std::size_t> bucket_bytes{};
  std::shared_ptr<CommHook> hook{};  ///< default: all_reduce_hook()
  Means means = Means::everywhere;
  /// Default: comm.progress_stream(), or a lane for every bucket where that stream is an inline one.
  std::optional<Stream> wire{};
};

/// Submits work on one reduced bucket to the stream that finish_step was given. Not called for
/// Exchange::later.
using BucketConsumer = std::function<void(const Bucket&)>;

namespace detail {
class ObservedSteps;
}

class GradientReducer {
 public:
  /// Collective. @throws Error (mismatch) naming two ranks whose layouts or plans differ
  GradientReducer(Communicator comm, const ParamLayout& layout, ReducerOptions options = {});

  const ParamLayout& layout() const { return layout_; }
  /// May change at a begin_step; its buckets stay valid as long as the reducer.
  const BucketPlan& plan() const { return plan_; }
  /// What the plan was made from, once it was.
  const std::optional<BackwardProfile>& profile() const { return profile_; }
  /// The arena, of the layout.
  View gradients() { return arena_.view().slice(0, layout().size()); }
  View gradient(ParamId id) { return layout().view(arena_.view(), id); }
  /// The part of a bucket of plan() that holds means on this rank after a step. Sharded, all ranks' parts are
  /// equally long and follow each other, and the last of the first bucket may end beyond the layout.
  View means(const Bucket& bucket);

  /// @throws Error (usage) when the step before was not finished, naming parameters that were not marked
  void begin_step(Exchange exchange = Exchange::now);
  /// Whether this micro-step adds to gradients of earlier ones.
  bool accumulating() const { return micro_steps_ > 1; }
  /// The gradient is complete once `stream` gets here. @throws Error (usage) outside a step, or when marked
  /// before
  void mark_ready(ParamId id, const Stream& stream);
  /// Progresses communication on an inline wire; mark_ready does so too. Worth a call between two kernels of
  /// a backward pass: the sooner a bucket is reduced, the more of it is still in the cache.
  void poll();
  /// Later work of `stream` sees the means. @throws Error (usage) naming the parameters that were never
  /// marked
  void finish_step(Stream stream) { finish_step(std::move(stream), nullptr); }
  /// As above, and as soon as `stream` has waited for one bucket it goes on with what `consume` submits for
  /// it, in plan order: an optimizer then works on the first buckets while the last are under way, and a rank
  /// that is early waits only for what it needs next.
  void finish_step(Stream stream, const BucketConsumer& consume);

  /// Seconds that compute streams have waited for communication so far: waiting in finish_step, and on an
  /// inline wire the communication carried out within mark_ready. Of a device, what it has passed so far.
  double exposed_seconds() const;

 private:
  class Wire;
  class Join;

  /// So that every rank's part of a bucket is whole cache lines.
  BucketPlan divisible(BucketPlan plan) const;
  void adopt(BucketPlan plan);
  void plan_from_what_was_seen();
  void launch_closed_buckets(const Stream& stream);
  void launch(std::size_t bucket, const Stream& stream);
  void join(Stream& stream, Event reduced);
  [[noreturn]] void refuse_unmarked(const char* call) const;

  Communicator comm_;
  Means means_;
  ParamLayout layout_;  // work on streams reads it while a plan changes
  std::shared_ptr<Wire> wire_;
  bool is_planned_;  // from what the first steps show
  BucketPlan plan_;
  std::optional<BucketPlan> first_plan_;  // consumers may still hold its buckets
  std::optional<BackwardProfile> profile_;
  std::shared_ptr<detail::ObservedSteps> observed_;  // until there is a plan
  std::shared_ptr<CommHook> hook_;
  Buffer arena_;

  struct Buckets {
    std::size_t first = 0;
    std::size_t last = 0;  // the same, but for a parameter that is divided
  };
  std::vector<Buckets> buckets_of_;             // by parameter
  std::vector<std::uint64_t> marked_in_;        // by parameter: the last micro-step it was marked in
  std::vector<std::size_t> unmarked_;           // by bucket: parameters still to come
  std::vector<std::vector<Stream>> producers_;  // by bucket: streams that wrote into it this step
  std::vector<Event> reduced_;                  // by bucket
  std::uint64_t step_ = 0;                      // micro-steps begun
  int micro_steps_ = 0;                         // of the gradients in the arena
  int marked_ = 0;
  std::size_t next_bucket_ = 0;
  bool open_ = false;
  Exchange exchange_ = Exchange::now;
};

}  // namespace weft
