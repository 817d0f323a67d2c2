#include "collectives/network/engine/wire_backend.hpp"

#include <numeric>

#include "collectives/network/engine/side_lanes.hpp"
#include "collectives/network/engine/wire_status.hpp"
#include "collectives/network/engine/wire_tags.hpp"

namespace weft::detail {
namespace {

class WireBackend final : public Backend {
 public:
  WireBackend(std::shared_ptr<WirePeers> peers, Choices choices, std::chrono::nanoseconds timeout)
      : peers_(std::move(peers)), wire_(peers_->wire), choices_(std::move(choices)), timeout_(timeout) {}

  std::string name() const override { return text("host (", wire_->name(), ")"); }
  SideChannel* side_channel() override { return &lanes().host(); }
  /// None where a watchdog's thread may not call the transport.
  PeerStatus* peer_status() override {
    if (!status_ && wire_->any_thread()) status_.emplace(lanes().device(), *wire_, peers_->are_near);
    return status_ ? &*status_ : nullptr;
  }
  bool any_thread() const override { return wire_->any_thread(); }

  std::unique_ptr<Task> start(const Operation& operation, const Stream&) override {
    const Algorithm algorithm = choose(choices_, operation, wire_->size());
    if (algorithm == Algorithm::mpi) return wire_->own_collective(operation, timeout_or(operation.timeout));
    return make_wire_exchange(
        peers_, plan_exchange(operation, algorithm, wire_->rank(), wire_->size(), peers_->scratch),
        wire_tags::of(operation, wire_->largest_tag()), timeout_or(operation.timeout));
  }
  std::unique_ptr<Task> start(Transfers transfers, const Stream&) override {
    return make_wire_exchange(peers_, plan_exchange(transfers, wire_->rank()), wire_tags::transfers,
                              timeout_or(transfers.timeout));
  }
  MessageLimits message_limits() const override { return {wire_tags::largest_of_a_message, false}; }
  Buffer allocate(DataType dtype, std::int64_t count, Contents contents) override {
    return Buffer::on_host(dtype, count, contents);
  }

  std::shared_ptr<Backend> split(const std::vector<int>& members,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    return make_wire_backend(wire_->split(members, rendezvous), choices_, timeout_);
  }

  std::string explain(const Operation& operation) const override {
    return explain_choice(choices_, operation, wire_->size());
  }
  std::uint64_t network_bytes() const override { return peers_->network_bytes; }
  void show(std::uint64_t number) override { shown_ = number; }
  std::optional<std::uint64_t> shown(int rank) const override {
    return rank == wire_->rank() ? std::optional(shown_.load()) : std::nullopt;
  }
  // Those who wait in an operation on the host hear it on the side channel.
  void give_up(const Error& error) noexcept override {
    if (status_) status_->give_up(error);
    wire_->give_up();
  }

 private:
  // Made by the first who asks, on the thread that makes the communicator: of three wires between nodes one is listened to.
  SideLanes& lanes() {
    if (!lanes_) lanes_.emplace(wire_->side_channel());
    return *lanes_;
  }

  std::chrono::nanoseconds timeout_or(std::chrono::nanoseconds own) const {
    return own.count() > 0 ? own : timeout_;
  }

  std::shared_ptr<WirePeers> peers_;
  std::shared_ptr<GroupWire> wire_;
  Choices choices_;
  std::chrono::nanoseconds timeout_;
  std::atomic<std::uint64_t> shown_{0};
  std::optional<SideLanes> lanes_;
  std::optional<WirePeerStatus> status_;
};

}  // namespace

std::shared_ptr<Backend> make_wire_backend(std::shared_ptr<GroupWire> wire, const Choices& choices,
                                           std::chrono::nanoseconds timeout) {
  std::vector<int> names(static_cast<std::size_t>(wire->size()));
  std::iota(names.begin(), names.end(), 0);
  std::vector<bool> are_near(names.size());
  are_near[static_cast<std::size_t>(wire->rank())] = true;
  return make_wire_backend(std::move(wire), choices, timeout, std::move(names), std::move(are_near));
}

std::shared_ptr<Backend> make_wire_backend(std::shared_ptr<GroupWire> wire, const Choices& choices,
                                           std::chrono::nanoseconds timeout, std::vector<int> names,
                                           std::vector<bool> are_near) {
  auto peers = std::make_shared<WirePeers>();
  peers->wire = std::move(wire);
  peers->names = std::move(names);
  peers->are_near = std::move(are_near);
  return std::make_shared<WireBackend>(std::move(peers), choices, timeout);
}

}  // namespace weft::detail
