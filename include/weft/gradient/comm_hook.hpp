#pragma once
// How ranks reduce a bucket: the interface by which compression plugs into the reducer.
//
// A hook chooses the collective, because the choice depends on its codec: the output of a linear codec can be
// all-reduced, that of top-k or int8 cannot. It is given both streams so that encoding can overlap with
// sending. `wire` already waits for the bucket's gradients; when everything that the hook submits to `wire`
// has run, `gradient` must hold the mean over ranks. A hook submits the same operations on every rank, and
// does not block.
//
//   struct Mean final : CommHook {
//     std::string name() const override { return "mean"; }
//     void reduce(const Bucket&, View gradient, Communicator& comm, const Stream& compute,
//                 const Stream& wire) override {
//       comm.all_reduce(gradient, ReduceOp::avg, wire);
//     }
//   };
//
// WRONG: ReduceOp::sum there. The optimizer would see gradients as many times too large as there are ranks.

#include <memory>
#include <optional>
#include <string>

#include "weft/checkpoint/piece.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_plan.hpp"
#include "weft/gradient/gradient_space.hpp"

namespace weft {

class CommHook {
 public:
  virtual ~CommHook() = default;

  virtual std::string name() const = 0;
  /// Buckets, and the ranks' parts of them, begin and end at multiples of so many elements of the flat space,
  /// or at its end. A codec that works by blocks then gives the same values whatever the buckets are. A
  /// parameter may lie in two buckets because of it.
  virtual std::int64_t granularity() const { return 1; }
  /// The size of buckets if ReducerOptions give none: for a codec whose time is not a latency plus a time per
  /// byte. Must be the same on all ranks. nullopt: the reducer plans as it does without a hook.
  virtual std::optional<std::size_t> bucket_bytes(const Communicator& /*comm*/) const { return std::nullopt; }
  /// Tells the hook the plan of the next steps: before the first step, and again when the reducer changes its
  /// plan. State that a hook keeps per bucket belongs to the old plan. Nothing is on the wire. Called on all
  /// ranks together, so that memory of `comm` may be allocated here. The second argument says where buckets
  /// and their parameters lie as long as the plan holds. When a bucket leaves, the gradients of its `params`
  /// are complete, also the elements that lie in later buckets. In a bucket ring no parameter lies in two
  /// buckets, and when the bucket's work on the wire is done others may take its place.
  virtual void planned(const BucketPlan& /*plan*/, GradientSpace /*gradients*/, Communicator& /*comm*/) {}
  /// Whether the last step took what later steps will take. The reducer asks at the beginning of each
  /// exchanged step, and only once the answer is true does it measure how long buckets take, to plan later
  /// ones. A hook that changes its work during training returns false until it has: PowerSGD until it has
  /// compressed for the first time. Must be the same on all ranks.
  virtual bool settled() const { return true; }
  /// Whether reduce() takes all addresses from its `gradient` and none from what planned() was given. The reducer
  /// may then show it memory of a caller (GradientReducer::mark_ready_in_place()).
  virtual bool reduces_anywhere() const { return false; }
  /// The number of micro-batches in a global batch, where the hook sums them by one fixed tree; 0: in rank
  /// order, each rank's own micro-batches first. The reducer sums this rank's part of the tree.
  virtual int micro_batches() const { return 0; }
  /// Reduces a bucket to its mean over ranks, in place.
  /// @param compute the stream that finished the bucket; encoding may use it, which delays backward
  virtual void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
                      const Stream& wire) = 0;
  /// As reduce(), where each rank keeps a part: only `mine`, this rank's part of `gradient` in the order of
  /// ranks, must hold the mean, and the rest may hold anything. The default calls reduce().
  virtual void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                              const Stream& compute, const Stream& wire);
  /// What later steps go on from, copied, for a checkpoint: between steps, after planned(). A rank's own tensors have its rank in their
  /// names; what all ranks have alike rank 0 gives alone. Nothing, values included: a hook without state.
  virtual checkpoint::State saved_state() { return {}; }
  /// Collective. Goes on from what saved_state() of a hook of the same name() gave, on any number of ranks.
  virtual void load_saved_state(const checkpoint::Values& /*values*/, const checkpoint::Reader& /*read*/) {}
};

/// One all_reduce(avg) in place, or one reduce_scatter(avg), of the gradients as they are.
std::shared_ptr<CommHook> all_reduce_hook();

/// Runs `inner` on gradients in another data type: casts them there and back on the wire's stream. Hooks
/// chain. From 16 bits to f32, every backend sums in f32, for twice the bytes. From f32 to 16 bits, half the
/// bytes are sent; between ranks of the host sums are taken in f32 and rounded once (docs/algorithms.md),
/// NCCL rounds at every hop. Nothing is scaled: values below the smallest number of a 16-bit type are lost.
/// Price: a second copy of the gradients, in `dtype`.
std::shared_ptr<CommHook> cast_hook(DataType dtype, std::shared_ptr<CommHook> inner = all_reduce_hook());

/// The mean by one binary tree in rank order, ((0 + 1) + (2 + 3)) and so on, so that two ranks sum as two
/// pairs of four ranks do. The number of ranks is a power of two; buckets are multiples of it (aligned()). An
/// all_to_all of slices, the sums, and an all_gather: the bytes of an all_reduce, and a second copy of the
/// gradients.
/// @param micro_batches of a global batch, a power of two, at least the number of ranks: the tree is then over
/// these, and parameters are bitwise the same on 1, 2, 4, ... ranks. Each rank takes an equal share of them, in
/// order, one a micro-step. Price: a buffer of all gradients for every halving of a rank's share. 0: the tree
/// is over ranks
std::shared_ptr<CommHook> tree_hook(int micro_batches = 0);

}  // namespace weft
