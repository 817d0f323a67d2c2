#include "collectives/nccl/nccl_backend.hpp"

#include <bit>

#include "collectives/nccl/issuer.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

nccl::Type type_of(DataType dtype) {
  switch (dtype) {
    case DataType::f32:
      return nccl::f32;
    case DataType::f64:
      return nccl::f64;
    case DataType::f16:
      return nccl::f16;
    case DataType::bf16:
      return nccl::bf16;
    case DataType::i32:
      return nccl::i32;
    case DataType::i64:
      return nccl::i64;
    case DataType::u8:
      return nccl::u8;
  }
  __builtin_unreachable();
}

/// The mean is a sum and a division in float: NCCL's own rounds 1/N to the data type first.
nccl::Op op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return nccl::sum;
    case ReduceOp::prod:
      return nccl::prod;
    case ReduceOp::min:
      return nccl::min;
    case ReduceOp::max:
      return nccl::max;
  }
  __builtin_unreachable();
}

/// The sum of a mean of f16 may not fit f16. So its terms are first divided by a power of two from the number of ranks on, which
/// changes no bit but of subnormals, as between nodes on the host; the rest comes off the sum.
struct HalfMean {
  explicit HalfMean(int ranks)
      : divisor(static_cast<float>(std::bit_ceil(static_cast<unsigned>(ranks)))),
        rest(static_cast<double>(divisor) / ranks) {}

  /// NCCL's operation, which ends with the communicator.
  nccl::Result find(const nccl::Api& api, nccl::Comm* comm, nccl::Op& found) {
    if (!op) {
      nccl::Op made{};
      Half scalar(1 / divisor);
      const nccl::Result result =
          api.RedOpCreatePreMulSum(&made, &scalar, nccl::f16, nccl::on_the_host, comm);
      if (result != nccl::success) return result;
      op = made;
    }
    found = *op;
    return nccl::success;
  }

  float divisor;
  double rest;  ///< factor that is left
  std::optional<nccl::Op> op{};
};

/// Several calls that NCCL carries out as one.
template <class Calls>
nccl::Result grouped(const nccl::Api& api, Calls calls) {
  if (const nccl::Result begun = api.GroupStart(); begun != nccl::success) return begun;
  const nccl::Result called = calls();
  const nccl::Result ended = api.GroupEnd();  // also after an error: the group is the thread's
  return called == nccl::success || called == nccl::in_progress ? ended : called;
}

/// Hands its calls over when its turn on the stream comes; from then on the issuer watches over it.
class NcclTask : public Task {
 public:
  NcclTask(std::shared_ptr<nccl::Issuer> issuer, cuda::Timeline& timeline, nccl::Description what)
      : issuer_(std::move(issuer)), timeline_(timeline), what_(std::move(what)) {}

  bool advance() final {
    issuer_->issue(
        timeline_, what_,
        [this](const nccl::Api& api, nccl::Comm* comm, nccl::Stream stream) {
          return call(api, comm, stream);
        },
        [this](nccl::Stream stream) { then(timeline_.runtime(), stream); });
    return true;
  }

 protected:
  const nccl::Issuer& issuer() const { return *issuer_; }

 private:
  virtual nccl::Result call(const nccl::Api& api, nccl::Comm* comm, nccl::Stream stream) const = 0;
  virtual void then(cuda::Runtime&, nccl::Stream) const {}

  std::shared_ptr<nccl::Issuer> issuer_;
  cuda::Timeline& timeline_;  // of the stream whose queue this is in
  nccl::Description what_;
};

class NcclCollective final : public NcclTask {
 public:
  NcclCollective(std::shared_ptr<nccl::Issuer> issuer, cuda::Timeline& timeline, const Operation& operation,
                 std::shared_ptr<void> scratch, std::shared_ptr<HalfMean> half_mean)
      : NcclTask(std::move(issuer), timeline,
                 {std::string(name(operation.kind)), operation.number, operation}),
        operation_(operation),
        scratch_(std::move(scratch)),
        half_mean_(std::move(half_mean)) {}

 private:
  nccl::Result call(const nccl::Api& api, nccl::Comm* comm, nccl::Stream stream) const override {
    if (operation_.kind == Collective::barrier)
      return api.AllReduce(scratch_.get(), scratch_.get(), 1, nccl::f32, nccl::sum, comm, stream);
    return operation_.count == 0 ? nccl::success : move(api, comm, stream);
  }

  void then(cuda::Runtime& cuda, nccl::Stream stream) const override {
    if (!operation_.reduces() || operation_.op != ReduceOp::avg || operation_.out.empty()) return;
    if (operation_.dtype != DataType::f16) {
      cuda.divide(operation_.out, issuer().size(), stream);
    } else if (half_mean_->rest != 1) {
      cuda.scale(operation_.out, half_mean_->rest, stream);
    }
  }

  nccl::Result move(const nccl::Api& api, nccl::Comm* comm, nccl::Stream stream) const {
    const void* in = operation_.in.data();
    void* out = operation_.out.data();
    const auto count = static_cast<std::size_t>(operation_.count);
    const nccl::Type type = type_of(operation_.dtype);
    nccl::Op op = op_of(operation_.op);
    if (operation_.reduces() && operation_.op == ReduceOp::avg && operation_.dtype == DataType::f16) {
      if (const nccl::Result made = half_mean_->find(api, comm, op); made != nccl::success) return made;
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
        break;
    }
    return nccl::internal_error;
  }

  nccl::Result all_to_all(const nccl::Api& api, nccl::Comm* comm, nccl::Stream stream) const {
    const auto count = static_cast<std::size_t>(operation_.count);
    const std::size_t bytes = count * size_of(operation_.dtype);
    const nccl::Type type = type_of(operation_.dtype);
    return grouped(api, [&] {
      for (int peer = 0; peer < issuer().size(); ++peer) {
        const std::size_t at = static_cast<std::size_t>(peer) * bytes;
        nccl::Result result = api.Send(operation_.in.bytes() + at, count, type, peer, comm, stream);
        if (result == nccl::success)
          result = api.Recv(operation_.out.bytes() + at, count, type, peer, comm, stream);
        if (result != nccl::success) return result;
      }
      return nccl::success;
    });
  }

  Operation operation_;
  std::shared_ptr<void> scratch_;
  std::shared_ptr<HalfMean> half_mean_;  // used by one thread at a time, which issues
};

class NcclTransfers final : public NcclTask {
 public:
  NcclTransfers(std::shared_ptr<nccl::Issuer> issuer, cuda::Timeline& timeline,
                std::vector<Transfer> transfers)
      : NcclTask(std::move(issuer), timeline, {"send/receive group"}), transfers_(std::move(transfers)) {}

 private:
  nccl::Result call(const nccl::Api& api, nccl::Comm* comm, nccl::Stream stream) const override {
    return grouped(api, [&] {
      for (const Transfer& one : transfers_) {
        const auto count = static_cast<std::size_t>(one.count());
        const nccl::Type type = type_of(one.dtype());
        const nccl::Result result = one.sends ? api.Send(one.out.data(), count, type, one.peer, comm, stream)
                                              : api.Recv(one.in.data(), count, type, one.peer, comm, stream);
        if (result != nccl::success) return result;
      }
      return nccl::success;
    });
  }

  std::vector<Transfer> transfers_;
};

class NcclBackend final : public Backend {
 public:
  NcclBackend(std::shared_ptr<Backend> host, std::unique_ptr<nccl::Communicator> comm,
              std::shared_ptr<cuda::Runtime> runtime, Device device, std::chrono::nanoseconds timeout)
      : host_(std::move(host)),
        runtime_(std::move(runtime)),
        device_(device),
        timeout_(timeout),
        issuer_(std::make_shared<nccl::Issuer>(std::move(comm), host_, timeout)),
        scratch_(runtime_->allocate(device.index(), sizeof(float)),
                 [runtime = runtime_, device](void* memory) { runtime->release(device.index(), memory); }) {}

  std::string explain(const Operation& operation) const override {
    return text("on ", device_,
                ": NCCL chooses (NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=TUNING shows it); on the host: ",
                host_->explain(operation));
  }
  std::uint64_t network_bytes() const override { return host_->network_bytes(); }
  std::string name() const override {
    return text("nccl ", nccl::version_text(issuer_->api()->version), " + ", host_->name());
  }
  std::unique_ptr<Task> start(const Operation& operation, const Stream& stream) override {
    if (stream.device().is_host()) return host_->start(operation, stream);
    if (operation.op == ReduceOp::avg && operation.reduces() && operation.dtype == DataType::u8) {
      throw Error(ErrorKind::usage, text("avg of u8 on ", device_, ": sums there wrap at 256"),
                  "reduce a wider type, or on the host");
    }
    return std::make_unique<NcclCollective>(issuer_, cuda::timeline_of(stream), operation, scratch_,
                                            half_mean_);
  }
  std::unique_ptr<Task> start(std::vector<Transfer> transfers, const Stream& stream) override {
    if (stream.device().is_host()) return host_->start(std::move(transfers), stream);
    return std::make_unique<NcclTransfers>(issuer_, cuda::timeline_of(stream), std::move(transfers));
  }
  Buffer allocate(DataType dtype, std::int64_t count) override {
    return nccl::allocate(issuer_, runtime_, device_, dtype, count);
  }
  Device device() const override { return device_; }
  PeerStatus* peer_status() override { return host_->peer_status(); }
  SideChannel* side_channel() override { return host_->side_channel(); }
  void show(std::uint64_t number) override { host_->show(number); }
  std::optional<std::uint64_t> shown(int rank) const override { return host_->shown(rank); }
  std::string late(std::uint64_t number) const override { return host_->late(number); }
  bool overlaps() const override { return host_->overlaps(); }
  bool any_thread() const override { return host_->any_thread(); }

  std::shared_ptr<Backend> split(const std::vector<int>& members,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    auto host = host_->split(members, rendezvous);
    const cuda::Current current(*runtime_, device_.index());
    // The first member's rank: a color that no other group has.
    auto comm = issuer_->split(members.front(), rendezvous->rank(), rendezvous->rank(), rendezvous->size());
    return std::make_shared<NcclBackend>(std::move(host), std::move(comm), runtime_, device_, timeout_);
  }
  void on_error(std::function<void(const Error&)> hear) override { issuer_->on_error(std::move(hear)); }
  void give_up(const std::string& reason) noexcept override {
    issuer_->give_up(Error(ErrorKind::peer_lost, reason));
    host_->give_up(reason);
  }

 private:
  std::shared_ptr<Backend> host_;
  std::shared_ptr<cuda::Runtime> runtime_;
  Device device_;
  std::chrono::nanoseconds timeout_;
  std::shared_ptr<nccl::Issuer> issuer_;
  std::shared_ptr<void> scratch_;
  std::shared_ptr<HalfMean> half_mean_ = std::make_shared<HalfMean>(issuer_->size());
};

std::string as_note(const nccl::UniqueId& id) {
  std::string note;
  for (const char byte : id.internal) {
    note += static_cast<char>('a' + (static_cast<unsigned char>(byte) >> 4));
    note += static_cast<char>('a' + (static_cast<unsigned char>(byte) & 15));
  }
  return note;
}

nccl::UniqueId id_from(const std::string& note) {
  nccl::UniqueId id{};
  if (note.size() != 2 * sizeof(id.internal))
    throw Error(ErrorKind::internal, text("an NCCL id of ", note.size(), " letters"));
  for (std::size_t i = 0; i < sizeof(id.internal); ++i)
    id.internal[i] = static_cast<char>((note[2 * i] - 'a') << 4 | (note[2 * i + 1] - 'a'));
  return id;
}

}  // namespace

std::shared_ptr<Backend> make_nccl_backend(std::shared_ptr<Backend> host,
                                           std::shared_ptr<const nccl::Api> api,
                                           const std::shared_ptr<Rendezvous>& rendezvous, Device device,
                                           const nccl::Options& options,
                                           std::chrono::nanoseconds connect_timeout) {
  const Deadline deadline = Deadline::in(connect_timeout);
  auto runtime = cuda::runtime();
  const cuda::Current current(*runtime, device.index());
  const std::string mine = rendezvous->rank() == 0 ? as_note(nccl::Communicator::make_id(*api)) : "";
  const auto notes = rendezvous->all_gather(mine, "connect NCCL", deadline);
  auto comm = std::make_unique<nccl::Communicator>(std::move(api), id_from(notes[0]), rendezvous->rank(),
                                                   rendezvous->size(), options, deadline);
  return std::make_shared<NcclBackend>(std::move(host), std::move(comm), std::move(runtime), device,
                                       options.timeout);
}

}  // namespace weft::detail
