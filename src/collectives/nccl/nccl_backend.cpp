#include "collectives/nccl/nccl_backend.hpp"

#include "collectives/nccl/nccl_tasks.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

/// NCCL has no bitwise operations (nccl.h: ncclRedOp_t) and no 16-bit integers; its sums wrap in the type
/// itself.
void expect_has_reduction(const Operation& operation, Device device) {
  const bool is_narrow = operation.dtype == DataType::u8 || operation.dtype == DataType::i8;
  if (operation.op == ReduceOp::avg && is_narrow) {
    throw Error(ErrorKind::usage,
                text("avg of ", operation.dtype, " on ", device, ": sums there wrap at 256"),
                "reduce a wider type, or on the host");
  }
  if (operation.dtype == DataType::i16 || is_bitwise(operation.op)) {
    throw Error(ErrorKind::usage,
                text(operation.op, " of ", operation.dtype, " on ", device, ": NCCL has no such reduction"),
                is_bitwise(operation.op) ? "reduce on the host" : "reduce a wider type, or on the host");
  }
}

class NcclBackend final : public Backend {
 public:
  NcclBackend(std::shared_ptr<Backend> host, std::unique_ptr<nccl::Communicator> comm,
              std::shared_ptr<cuda::Runtime> runtime, Device device, std::chrono::nanoseconds timeout,
              std::shared_ptr<DeviceOrder> order)
      : host_(std::move(host)),
        runtime_(std::move(runtime)),
        device_(device),
        timeout_(timeout),
        order_(std::move(order)),
        issuer_(std::make_shared<nccl::Issuer>(std::move(comm), host_, timeout)),
        scratch_(runtime_->allocate(device.index(), sizeof(float)),
                 [runtime = runtime_, device](void* memory) { runtime->release(device.index(), memory); }) {
    connect_collectives();
  }

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
    if (operation.reduces()) expect_has_reduction(operation, device_);
    return nccl::collective_task(issuer_, stream, operation, scratch_, half_mean_);
  }
  std::unique_ptr<Task> start(Transfers transfers, const Stream& stream) override {
    if (stream.device().is_host()) return host_->start(std::move(transfers), stream);
    return nccl::transfers_task(issuer_, stream, std::move(transfers));
  }
  MessageLimits message_limits() const override { return host_->message_limits(); }
  Buffer allocate(DataType dtype, std::int64_t count, Contents) override {
    return nccl::allocate(issuer_, runtime_, device_, dtype, count);
  }
  std::shared_ptr<const void> register_memory(View memory) override {
    const cuda::Current current(*runtime_, device_.index());
    return nccl::register_memory(issuer_, memory);
  }
  Device device() const override { return device_; }
  DeviceOrder* device_order() override { return order_.get(); }
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
    return std::make_shared<NcclBackend>(std::move(host), std::move(comm), runtime_, device_, timeout_,
                                         order_);
  }
  void on_error(std::function<void(const Error&)> hear) override { issuer_->on_error(std::move(hear)); }
  void give_up(const Error& error) noexcept override {
    issuer_->give_up(error);
    host_->give_up(error);
  }

 private:
  void connect_collectives() {
    Stream stream(device_);
    stream.submit(nccl::first_task(issuer_, stream, scratch_));
    stream.synchronize();  // the issuer's deadline ends it
  }

  std::shared_ptr<Backend> host_;
  std::shared_ptr<cuda::Runtime> runtime_;
  Device device_;
  std::chrono::nanoseconds timeout_;
  std::shared_ptr<DeviceOrder> order_;  // one for all communicators that come from one connect()
  std::shared_ptr<nccl::Issuer> issuer_;
  std::shared_ptr<void> scratch_;
  std::shared_ptr<nccl::HalfMean> half_mean_ = std::make_shared<nccl::HalfMean>(issuer_->size());
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
                                           nccl::Options options, std::chrono::nanoseconds connect_timeout) {
  const Deadline deadline = Deadline::in(connect_timeout);
  auto runtime = cuda::runtime();
  const cuda::Current current(*runtime, device.index());
  options.enter = [runtime, device] { runtime->make_current(device.index()); };
  const std::string mine = rendezvous->rank() == 0 ? as_note(nccl::Communicator::make_id(*api)) : "";
  const auto notes = rendezvous->all_gather(mine, "connect NCCL", deadline);
  PeerStatus* const status = host->peer_status();
  const auto look = [status] {
    if (status != nullptr) status->tell(true);
    const auto lost = status != nullptr ? status->lost(0) : std::nullopt;
    if (lost) throw Error(*lost);
  };
  std::unique_ptr<nccl::Communicator> comm;
  try {
    comm = std::make_unique<nccl::Communicator>(std::move(api), id_from(notes[0]), rendezvous->rank(),
                                                rendezvous->size(), options, deadline, look);
  } catch (const Error& error) {
    const Error reason = nccl::who_is_gone(status, error).in({rendezvous->rank(), "connect", 0});
    host->give_up(reason);  // the others wait in NCCL
    throw Error(reason);
  }
  return std::make_shared<NcclBackend>(std::move(host), std::move(comm), std::move(runtime), device,
                                       options.timeout, std::make_shared<DeviceOrder>());
}

}  // namespace weft::detail
