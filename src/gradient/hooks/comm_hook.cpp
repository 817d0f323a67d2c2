// The hooks that do not compress: all_reduce_hook() and cast_hook(). tree_hook() is in
// deterministic_tree.cpp; hooks that compress are on the compression floor.
//
// cast_hook on one bucket of n elements: cast the gradient into a copy of the other data type, run the inner
// hook on the copy, cast the result back. All three are submitted to the wire's stream. Price: two passes
// over the bucket, and memory for a copy of all gradients, or of the bucket ring.

#include "weft/gradient/comm_hook.hpp"

#include "core/memory/elementwise.hpp"

namespace weft {
namespace {

class AllReduceHook final : public CommHook {
 public:
  std::string name() const override { return "all_reduce"; }
  bool reduces_anywhere() const override { return true; }
  void reduce(const Bucket&, View gradient, Communicator& comm, const Stream&, const Stream& wire) override {
    comm.all_reduce(gradient, ReduceOp::avg, wire);
  }
  void reduce_scatter(const Bucket&, View gradient, View mine, Communicator& comm, const Stream&,
                      const Stream& wire) override {
    comm.reduce_scatter(gradient, mine, ReduceOp::avg, wire);
  }
};

class CastHook final : public CommHook {
 public:
  CastHook(DataType dtype, std::shared_ptr<CommHook> inner) : dtype_(dtype), inner_(std::move(inner)) {
    if (!is_floating(dtype))
      throw Error(ErrorKind::usage, text("gradients reduced as ", dtype),
                  "reduce them as f64, f32, f16 or bf16");
  }

  std::string name() const override { return text(inner_->name(), " of ", dtype_); }

  std::int64_t granularity() const override { return inner_->granularity(); }
  std::optional<std::size_t> bucket_bytes(const Communicator& comm) const override {
    return inner_->bucket_bytes(comm);
  }
  bool settled() const override { return inner_->settled(); }
  bool reduces_anywhere() const override { return is_needed_ || inner_->reduces_anywhere(); }
  int micro_batches() const override { return inner_->micro_batches(); }
  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override {
    is_needed_ = gradients.dtype() != dtype_;
    if (!is_needed_) return inner_->planned(plan, std::move(gradients), comm);
    const std::int64_t count = gradients.memory().count();
    if (count > memory_.count()) memory_ = comm.allocate(dtype_, count);
    cast_ = gradients.over(memory_.view().slice(0, count));
    inner_->planned(plan, cast_, comm);
  }

  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) override {
    if (!is_needed_) return inner_->reduce(bucket, gradient, comm, compute, wire);
    const View cast = in_cast(bucket, gradient.count());
    detail::cast(cast, gradient, wire);
    inner_->reduce(bucket, cast, comm, compute, wire);
    detail::cast(gradient, cast, wire);
  }

  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                      const Stream& compute, const Stream& wire) override {
    if (!is_needed_) return inner_->reduce_scatter(bucket, gradient, mine, comm, compute, wire);
    const View cast = in_cast(bucket, gradient.count());
    const View my_cast = cast.slice(mine.count() * comm.rank(), mine.count());
    detail::cast(cast, gradient, wire);
    inner_->reduce_scatter(bucket, cast, my_cast, comm, compute, wire);
    detail::cast(mine, my_cast, wire);
  }
  checkpoint::State saved_state() override { return inner_->saved_state(); }
  void load_saved_state(const checkpoint::Values& values, const checkpoint::Reader& read) override {
    inner_->load_saved_state(values, read);
  }

 private:
  View in_cast(const Bucket& bucket, std::int64_t count) { return cast_.slice(bucket.begin, count); }

  DataType dtype_;
  std::shared_ptr<CommHook> inner_;
  bool is_needed_ = true;  // whether gradients have another type
  Buffer memory_;
  GradientSpace cast_;  // the gradients' places over memory_
};

}  // namespace

void CommHook::reduce_scatter(const Bucket& bucket, View gradient, View, Communicator& comm,
                              const Stream& compute, const Stream& wire) {
  reduce(bucket, gradient, comm, compute, wire);
}

std::shared_ptr<CommHook> all_reduce_hook() {
  return std::make_shared<AllReduceHook>();
}

std::shared_ptr<CommHook> cast_hook(DataType dtype, std::shared_ptr<CommHook> inner) {
  return std::make_shared<CastHook>(dtype, std::move(inner));
}

}  // namespace weft
