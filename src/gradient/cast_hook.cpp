#include "core/elementwise.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {
namespace {

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
  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override {
    const std::int64_t count = gradients.memory().count();
    if (count > memory_.count()) memory_ = comm.allocate(dtype_, count);
    cast_ = gradients.over(memory_.view().slice(0, count));
    inner_->planned(plan, cast_, comm);
  }

  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) override {
    const View cast = in_cast(bucket, gradient.count());
    detail::cast(cast, gradient, wire);
    inner_->reduce(bucket, cast, comm, compute, wire);
    detail::cast(gradient, cast, wire);
  }

  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                      const Stream& compute, const Stream& wire) override {
    const View cast = in_cast(bucket, gradient.count());
    const View my_cast = cast.slice(mine.count() * comm.rank(), mine.count());
    detail::cast(cast, gradient, wire);
    inner_->reduce_scatter(bucket, cast, my_cast, comm, compute, wire);
    detail::cast(mine, my_cast, wire);
  }

 private:
  View in_cast(const Bucket& bucket, std::int64_t count) { return cast_.slice(bucket.begin, count); }

  DataType dtype_;
  std::shared_ptr<CommHook> inner_;
  Buffer memory_;
  GradientSpace cast_;  // over that
};

}  // namespace

std::shared_ptr<CommHook> cast_hook(DataType dtype, std::shared_ptr<CommHook> inner) {
  return std::make_shared<CastHook>(dtype, std::move(inner));
}

}  // namespace weft
