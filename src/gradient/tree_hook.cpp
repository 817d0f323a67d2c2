#include <bit>

#include "core/elementwise.hpp"
#include "weft/core/copy.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {
namespace {

class TreeHook final : public CommHook {
 public:
  std::string name() const override { return "fixed tree"; }

  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override {
    if (!std::has_single_bit(static_cast<unsigned>(comm.size()))) {
      throw Error(ErrorKind::usage, text("a fixed tree of sums over ", comm.size(), " ranks"),
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
    pieces_ = gradients.over(memory_.view().slice(0, count));
  }

  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) override {
    const std::int64_t part = gradient.count() / comm.size();
    const View mine = gradient.slice(part * comm.rank(), part);
    reduce_scatter(bucket, gradient, mine, comm, compute, wire);
    if (comm.size() > 1) comm.all_gather(mine, gradient, wire);
  }

  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm, const Stream&,
                      const Stream& wire) override {
    const std::int64_t ranks = comm.size();
    if (ranks == 1) return;
    const View pieces = pieces_.slice(bucket.begin, gradient.count());
    comm.all_to_all(gradient, pieces, wire);
    const auto piece = [&](std::int64_t rank) { return pieces.slice(rank * mine.count(), mine.count()); };
    for (std::int64_t step = 1; step < ranks; step *= 2) {
      for (std::int64_t rank = 0; rank < ranks; rank += 2 * step)
        detail::add(piece(rank), piece(rank + step), wire);
    }
    detail::divide(piece(0), ranks, wire);
    copy(mine, piece(0), wire);
  }

 private:
  Buffer memory_;
  GradientSpace pieces_;  // over that; what every rank brings of this rank's part of a bucket
};

}  // namespace

std::shared_ptr<CommHook> tree_hook() {
  return std::make_shared<TreeHook>();
}

}  // namespace weft
