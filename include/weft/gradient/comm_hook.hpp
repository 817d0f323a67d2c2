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
#include <string>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft {

class CommHook {
 public:
  virtual ~CommHook() = default;

  virtual std::string name() const = 0;
  /// The plan whose buckets come from now on: before the first step, and again when the reducer changes to
  /// another. What a hook keeps by bucket belongs to the one before; nothing is on the wire.
  virtual void planned(const BucketPlan& /*plan*/) {}
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

}  // namespace weft
