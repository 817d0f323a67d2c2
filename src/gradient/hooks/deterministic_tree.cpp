#include "gradient/hooks/deterministic_tree.hpp"

#include <bit>

#include "core/memory/elementwise.hpp"
#include "weft/core/copy.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {
namespace detail {

DeterministicTree::DeterministicTree(int micro_batches, Communicator& comm, const ParamLayout& layout)
    : per_rank_(micro_batches / comm.size()), layout_(layout) {
  const auto is_power = [](int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); };
  if (!is_power(micro_batches) || !is_power(comm.size()) || per_rank_ == 0) {
    throw Error(ErrorKind::usage,
                text("a tree of ", micro_batches, " micro-batches for ", comm.size(), " ranks"),
                "both are powers of two, with at least a micro-batch for every rank",
                {comm.rank(), "GradientReducer", 0});
  }
  for (int level = 1; level < per_rank_; level *= 2)
    levels_.push_back(Buffer::on(comm.device(), layout.dtype(), layout.size()));
}

// The number of one bits at the end of `number` is the number of levels that carry.
void DeterministicTree::add_micro_batch(ParamId id, View gradient, int number, const Stream& stream) {
  const int carries = std::countr_one(static_cast<unsigned>(number));
  for (int level = 0; level < carries; ++level)
    add(gradient, layout_.view(levels_[static_cast<std::size_t>(level)].view(), id), stream);
  if (number + 1 < per_rank_)
    copy(layout_.view(levels_[static_cast<std::size_t>(carries)].view(), id), gradient, stream);
}

}  // namespace detail

namespace {

/// The tree between ranks. A bucket of n elements is cut into one slice per rank:
///   1. all_to_all: every rank gets its slice of all ranks' gradients, n (R - 1) / R elements sent by each;
///   2. R - 1 additions of slices, pairwise by rank: 0 + 1, 2 + 3, ..., then the pairs, and so on;
///   3. division by R, and an all_gather of the slices, n (R - 1) / R elements again (not in reduce_scatter).
/// The bytes are those of a ring all_reduce. All steps are submitted to the wire's stream.
class TreeHook final : public CommHook {
 public:
  explicit TreeHook(int micro_batches) : micro_batches_(micro_batches) {}

  std::string name() const override {
    return micro_batches_ > 0 ? text("tree of ", micro_batches_, " micro-batches") : "tree of ranks";
  }
  int micro_batches() const override { return micro_batches_; }

  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override {
    if (!std::has_single_bit(static_cast<unsigned>(comm.size()))) {
      throw Error(ErrorKind::usage, text("a deterministic tree of sums over ", comm.size(), " ranks"),
                  "use a number of ranks that is a power of two");
    }
    for (const Bucket& bucket : plan.buckets()) {
      if (bucket.count() % comm.size() == 0) continue;
      throw Error(ErrorKind::usage,
                  text("a bucket of ", bucket.count(), " elements for ", comm.size(), " ranks"),
                  "plan buckets of whole elements for every rank, with aligned()");
    }
    const std::int64_t count = gradients.memory().count();
    if (count > memory_.count()) memory_ = comm.allocate(gradients.dtype(), count);
    slices_ = gradients.over(memory_.view().slice(0, count));
  }

  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) override {
    const std::int64_t count = gradient.count() / comm.size();
    const View mine = gradient.slice(count * comm.rank(), count);
    reduce_scatter(bucket, gradient, mine, comm, compute, wire);
    if (comm.size() > 1) comm.all_gather(mine, gradient, wire);
  }

  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm, const Stream&,
                      const Stream& wire) override {
    const std::int64_t ranks = comm.size();
    if (ranks == 1) return;
    const View slices = slices_.slice(bucket.begin, gradient.count());
    comm.all_to_all(gradient, slices, wire);
    const auto slice = [&](std::int64_t rank) { return slices.slice(rank * mine.count(), mine.count()); };
    for (std::int64_t step = 1; step < ranks; step *= 2) {
      for (std::int64_t rank = 0; rank < ranks; rank += 2 * step)
        detail::add(slice(rank), slice(rank + step), wire);
    }
    detail::divide(slice(0), ranks, wire);
    copy(mine, slice(0), wire);
  }

 private:
  int micro_batches_;
  Buffer memory_;
  // The gradients' places over memory_: in that of a bucket, every rank's values of this rank's slice.
  GradientSpace slices_;
};

}  // namespace

std::shared_ptr<CommHook> tree_hook(int micro_batches) {
  if (micro_batches < 0)
    throw Error(ErrorKind::usage, text("a tree of ", micro_batches, " micro-batches"), "give a power of two");
  return std::make_shared<TreeHook>(micro_batches);
}

}  // namespace weft
