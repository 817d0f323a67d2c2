#include "collectives/nccl/nccl_tasks.hpp"

#include "weft/core/error.hpp"

namespace weft::detail::nccl {

namespace {

Type type_of(DataType dtype) {
  switch (dtype) {
    case DataType::f32:
      return f32;
    case DataType::f64:
      return f64;
    case DataType::f16:
      return f16;
    case DataType::bf16:
      return bf16;
    case DataType::i32:
      return i32;
    case DataType::i64:
      return i64;
    case DataType::u8:
      return u8;
    case DataType::i8:
      return i8;
    case DataType::u32:
      return u32;
    case DataType::u64:
      return u64;
    case DataType::i16:
      return f16;  // NCCL has no such type and moves any two bytes; reductions are refused (nccl_backend.cpp)
  }
  __builtin_unreachable();
}

/// The mean is a sum and a division in float: NCCL's own rounds 1/N to the data type first.
Op op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return sum;
    case ReduceOp::prod:
      return prod;
    case ReduceOp::min:
      return min;
    case ReduceOp::max:
      return max;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      break;  // refused before (nccl_backend.cpp)
  }
  __builtin_unreachable();
}

/// Several calls that NCCL carries out as one.
template <class Calls>
Result grouped(const Api& api, Calls calls) {
  if (const Result begun = api.GroupStart(); begun != success) return begun;
  const Result called = calls();
  const Result ended = api.GroupEnd();  // also after an error: the group is the thread's
  return called == success || called == in_progress ? ended : called;
}

/// Hands its calls over when its turn on the stream comes; from then on the issuer watches over it.
class NcclTask : public Task {
 public:
  NcclTask(std::shared_ptr<Issuer> issuer, cuda::Timeline& timeline, Description what)
      : issuer_(std::move(issuer)), timeline_(timeline), what_(std::move(what)) {}

  bool advance() final {
    issuer_->issue(
        timeline_, what_,
        [this](const Api& api, Comm* comm, Stream stream) { return call(api, comm, stream); },
        [this](Stream stream) { then(timeline_.runtime(), stream); });
    return true;
  }

 protected:
  const Issuer& issuer() const { return *issuer_; }

 private:
  virtual Result call(const Api& api, Comm* comm, Stream stream) const = 0;
  virtual void then(cuda::Runtime&, Stream) const {}

  std::shared_ptr<Issuer> issuer_;
  cuda::Timeline& timeline_;  // of the stream whose queue this is in
  Description what_;
};

class NcclFirst final : public NcclTask {
 public:
  NcclFirst(std::shared_ptr<Issuer> issuer, cuda::Timeline& timeline, std::shared_ptr<void> scratch)
      : NcclTask(std::move(issuer), timeline, {"connect"}), scratch_(std::move(scratch)) {}

 private:
  Result call(const Api& api, Comm* comm, Stream stream) const override {
    return api.AllReduce(scratch_.get(), scratch_.get(), 1, f32, sum, comm, stream);
  }

  std::shared_ptr<void> scratch_;
};

class NcclCollective final : public NcclTask {
 public:
  NcclCollective(std::shared_ptr<Issuer> issuer, cuda::Timeline& timeline, const Operation& operation,
                 std::shared_ptr<void> scratch, std::shared_ptr<HalfMean> half_mean)
      : NcclTask(std::move(issuer), timeline,
                 {std::string(name(operation.kind)), operation.number, operation, operation.timeout}),
        operation_(operation),
        scratch_(std::move(scratch)),
        half_mean_(std::move(half_mean)) {}

 private:
  Result call(const Api& api, Comm* comm, Stream stream) const override {
    if (operation_.kind == Collective::barrier)
      return api.AllReduce(scratch_.get(), scratch_.get(), 1, f32, sum, comm, stream);
    return operation_.count == 0 ? success : move(api, comm, stream);
  }

  void then(cuda::Runtime& cuda, Stream stream) const override {
    if (!operation_.reduces() || operation_.op != ReduceOp::avg || operation_.out.empty()) return;
    if (operation_.dtype != DataType::f16) {
      cuda.divide(operation_.out, issuer().size(), stream);
    } else if (half_mean_->rest != 1) {
      cuda.scale(operation_.out, half_mean_->rest, stream);
    }
  }

  Result move(const Api& api, Comm* comm, Stream stream) const {
    const void* in = operation_.in.data();
    void* out = operation_.out.data();
    const auto count = static_cast<std::size_t>(operation_.count);
    const Type type = type_of(operation_.dtype);
    Op op = op_of(operation_.op);
    if (operation_.reduces() && operation_.op == ReduceOp::avg && operation_.dtype == DataType::f16) {
      if (const Result made = half_mean_->find(api, comm, op); made != success) return made;
    }
    switch (operation_.kind) {
      case Collective::all_reduce:
        return api.AllReduce(in, out, count, type, op, comm, stream);
      case Collective::reduce_scatter:
        return api.ReduceScatter(in, out, count, type, op, comm, stream);
      case Collective::all_gather:
        return api.AllGather(in, out, count, type, comm, stream);
      case Collective::broadcast:
        return api.Broadcast(in, out, count, type, operation_.root, comm, stream);
      case Collective::reduce:
        return api.Reduce(in, out, count, type, op, operation_.root, comm, stream);
      case Collective::all_to_all:
        return all_to_all(api, comm, stream);
      case Collective::barrier:
      case Collective::reduce_slices:
      case Collective::gather_slices:
      case Collective::reduce_parts:
      case Collective::gather_parts:
        break;
    }
    return internal_error;
  }

  Result all_to_all(const Api& api, Comm* comm, Stream stream) const {
    const auto count = static_cast<std::size_t>(operation_.count);
    const std::size_t bytes = count * size_of(operation_.dtype);
    const Type type = type_of(operation_.dtype);
    if (api.AlltoAll != nullptr)  // copy engines may carry it (2.28.9: enqueue.cc:2580)
      return api.AlltoAll(operation_.in.data(), operation_.out.data(), count, type, comm, stream);
    return grouped(api, [&] {
      for (int peer = 0; peer < issuer().size(); ++peer) {
        const std::size_t at = static_cast<std::size_t>(peer) * bytes;
        Result result = api.Send(operation_.in.bytes() + at, count, type, peer, comm, stream);
        if (result == success)
          result = api.Recv(operation_.out.bytes() + at, count, type, peer, comm, stream);
        if (result != success) return result;
      }
      return success;
    });
  }

  Operation operation_;
  std::shared_ptr<void> scratch_;
  std::shared_ptr<HalfMean> half_mean_;  // used by one thread at a time, which issues
};

class NcclTransfers final : public NcclTask {
 public:
  NcclTransfers(std::shared_ptr<Issuer> issuer, cuda::Timeline& timeline, Transfers transfers)
      : NcclTask(std::move(issuer), timeline, {.label = "send/receive group", .timeout = transfers.timeout}),
        transfers_(std::move(transfers.all)) {}

 private:
  Result call(const Api& api, Comm* comm, Stream stream) const override {
    return grouped(api, [&] {
      for (const Transfer& one : transfers_) {
        const auto count = static_cast<std::size_t>(one.count());
        const Type type = type_of(one.dtype());
        const Result result = one.sends ? api.Send(one.out.data(), count, type, one.peer, comm, stream)
                                        : api.Recv(one.in.data(), count, type, one.peer, comm, stream);
        if (result != success) return result;
      }
      return success;
    });
  }

  std::vector<Transfer> transfers_;
};

}  // namespace

std::unique_ptr<Task> first_task(std::shared_ptr<Issuer> issuer, const weft::Stream& stream,
                                 std::shared_ptr<void> scratch) {
  return std::make_unique<NcclFirst>(std::move(issuer), cuda::timeline_of(stream), std::move(scratch));
}

std::unique_ptr<Task> collective_task(std::shared_ptr<Issuer> issuer, const weft::Stream& stream,
                                      const Operation& operation, std::shared_ptr<void> scratch,
                                      std::shared_ptr<HalfMean> half_mean) {
  return std::make_unique<NcclCollective>(std::move(issuer), cuda::timeline_of(stream), operation,
                                          std::move(scratch), std::move(half_mean));
}

std::unique_ptr<Task> transfers_task(std::shared_ptr<Issuer> issuer, const weft::Stream& stream,
                                     Transfers transfers) {
  return std::make_unique<NcclTransfers>(std::move(issuer), cuda::timeline_of(stream), std::move(transfers));
}

}  // namespace weft::detail::nccl
