#include "zero/replicas_hook.hpp"

namespace weft::detail {
namespace {

class ReplicasHook final : public CommHook {
 public:
  ReplicasHook(std::shared_ptr<CommHook> inner, Communicator replicas)
      : inner_(std::move(inner)), replicas_(std::move(replicas)) {}

  std::string name() const override {
    return text(inner_->name(), ", then over ", replicas_.size(), " replicas");
  }
  std::int64_t granularity() const override { return inner_->granularity(); }
  std::optional<std::size_t> bucket_bytes(const Communicator& comm) const override {
    return inner_->bucket_bytes(comm);
  }
  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override {
    inner_->planned(plan, std::move(gradients), comm);
  }
  bool settled() const override { return inner_->settled(); }
  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) override {
    inner_->reduce(bucket, gradient, comm, compute, wire);
    replicas_.all_reduce(gradient, ReduceOp::avg, wire);
  }
  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                      const Stream& compute, const Stream& wire) override {
    inner_->reduce_scatter(bucket, gradient, mine, comm, compute, wire);
    replicas_.all_reduce(mine, ReduceOp::avg, wire);
  }

 private:
  std::shared_ptr<CommHook> inner_;
  Communicator replicas_;
};

}  // namespace

std::shared_ptr<CommHook> replicas_hook(std::shared_ptr<CommHook> inner, Communicator replicas) {
  return std::make_shared<ReplicasHook>(inner ? std::move(inner) : all_reduce_hook(), std::move(replicas));
}

}  // namespace weft::detail
