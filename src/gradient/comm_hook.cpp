#include "weft/gradient/comm_hook.hpp"

namespace weft {
namespace {

class AllReduceHook final : public CommHook {
 public:
  std::string name() const override { return "all_reduce"; }
  void reduce(const Bucket&, View gradient, Communicator& comm, const Stream&, const Stream& wire) override {
    comm.all_reduce(gradient, ReduceOp::avg, wire);
  }
  void reduce_scatter(const Bucket&, View gradient, View mine, Communicator& comm, const Stream&,
                      const Stream& wire) override {
    comm.reduce_scatter(gradient, mine, ReduceOp::avg, wire);
  }
};

}  // namespace

void CommHook::reduce_scatter(const Bucket& bucket, View gradient, View, Communicator& comm,
                              const Stream& compute, const Stream& wire) {
  reduce(bucket, gradient, comm, compute, wire);
}

std::shared_ptr<CommHook> all_reduce_hook() {
  return std::make_shared<AllReduceHook>();
}

}  // namespace weft
