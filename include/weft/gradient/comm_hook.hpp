#pragma once
// What happens to a bucket between the ranks: the seam at which compression plugs into the reducer.
//
// A hook owns the choice of collective, for that depends on its code: what is linear can be all-reduced,
// top-k or int8 cannot. It is given both streams so that coding can overlap with sending: `wire` already
// waits for the bucket's gradients, and when everything submitted to `wire` has run, `gradient` must hold the
// mean over ranks. It must submit the same operations on every rank and must not block.
//
//   struct Sum final : CommHook {                      // a hook that forgets to divide trains with a wrong
//   rate
//     void reduce(const Bucket&, View gradient, Communicator& comm, const Stream&, const Stream& wire)
//     override {
//       comm.all_reduce(gradient, ReduceOp::sum, wire);                     // WRONG: the mean is asked for
//     }
//   };

#include <memory>
#include <optional>
#include <string>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_plan.hpp"
#include "weft/gradient/gradient_space.hpp"

namespace weft {

class CommHook {
 public:
  virtual ~CommHook() = default;

  virtual std::string name() const = 0;
  /// Buckets begin and end at multiples of so many elements of the flat space, or at its end, and so do the
  /// parts of ranks:
  /// a code by blocks then gives the same values whichever buckets there are. A parameter may lie in two
  /// buckets for it.
  virtual std::int64_t granularity() const { return 1; }
  /// What buckets should have, where the options do not say: for a code whose buckets cost what a line
  /// through bytes does not describe. None: planned from what is seen, as else. The same on all ranks.
  virtual std::optional<std::size_t> bucket_bytes(const Communicator& /*comm*/) const { return std::nullopt; }
  /// The plan whose buckets come from now on: before the first step, and again when the reducer changes to
  /// another. What a hook keeps by bucket belongs to the one before; nothing is on the wire. Called on all
  /// ranks together, so that memory of `comm` may be allocated here.
  /// @param gradients where buckets and their parameters lie, as long as the plan. When a bucket leaves, the
  /// gradients of its `params` are complete, also where they reach into later buckets; in windows they do
  /// not, and from the end of its work on the wire others lie there
  virtual void planned(const BucketPlan& /*plan*/, GradientSpace /*gradients*/, Communicator& /*comm*/) {}
  /// Whether the last step's buckets went as those of later steps will, so that buckets may be planned from
  /// what they took. A code that starts late says so. The same on all ranks.
  virtual bool settled() const { return true; }
  /// @param compute the stream that finished the bucket; coding may use it, at the price of delaying backward
  virtual void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
                      const Stream& wire) = 0;
  /// The same where ranks keep a part each: only `mine`, this rank's part of `gradient` in the order of
  /// ranks, must hold the mean, and the rest may hold anything. A hook that does not know better reduces all
  /// of it.
  virtual void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                              const Stream& compute, const Stream& wire);
};

/// One all_reduce(avg) in place, or one reduce_scatter(avg): exact.
std::shared_ptr<CommHook> all_reduce_hook();

/// `inner` on gradients in another data type, which are cast there and back on the wire's stream: hooks
/// chain. To f32 from 16 bits, sums are exact to f32 whoever takes them, for twice the bytes; to 16 bits they
/// are half the bytes, and between ranks of the host summed in f32 and rounded once (docs/algorithms.md; NCCL
/// rounds at every hop). Keeps a second copy of the gradients, in `dtype`. A cast changes scales of nothing:
/// what lies below a 16-bit type's smallest number is lost.
std::shared_ptr<CommHook> cast_hook(DataType dtype, std::shared_ptr<CommHook> inner = all_reduce_hook());

/// The mean by one binary tree over the ranks, a power of two of them, each in its place: ((0 + 1) + (2 + 3))
/// and so on, so that two ranks sum as two pairs of four would. An all_to_all of slices, the sums, and an
/// all_gather: the bytes of an all_reduce, and a second copy of the gradients. Buckets are multiples of the
/// number of ranks (aligned()).
std::shared_ptr<CommHook> tree_hook();

}  // namespace weft
