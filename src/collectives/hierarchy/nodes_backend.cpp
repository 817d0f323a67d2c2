// Collectives over nodes: shared memory within each node, a wire between them. nodes_steps.hpp tells the steps;
// what has no such steps goes over the wire from every rank to every other.

#include "collectives/hierarchy/nodes_backend.hpp"

#include <algorithm>

#include "collectives/hierarchy/nodes_steps.hpp"
#include "collectives/network/engine/wire_backend.hpp"
#include "collectives/shm/host_backend.hpp"
#include "weft/core/error.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::detail {
namespace {

/// This node's ranks are seen in their memory, those of other nodes say where they are.
class NodesPeerStatus final : public PeerStatus {
 public:
  /// Both name ranks as the communicator of all does, and live longer.
  NodesPeerStatus(PeerStatus& near, PeerStatus& far) : near_(near), far_(far) {}

  void issued(const Operation& operation) override {
    near_.issued(operation);
    far_.issued(operation);
  }
  void compare(const Operation& operation) const override {
    near_.compare(operation);
    far_.compare(operation);
  }
  std::string behind(std::uint64_t number) const override {
    const std::string here = near_.behind(number);
    const std::string there = far_.behind(number);
    return here.empty() || there.empty() ? here + there : text(here, ", ", there);
  }
  std::optional<Error> lost(std::uint64_t number) const override {
    auto here = near_.lost(number);
    return here ? here : far_.lost(number);
  }
  bool needs_telling() const override { return far_.needs_telling(); }
  void tell(bool is_active) override { far_.tell(is_active); }

 private:
  PeerStatus& near_;
  PeerStatus& far_;
};

/// An operation, of which this rank's neighbours see that it has come to it.
class Announced final : public Task {
 public:
  Announced(std::shared_ptr<Backend> local, std::uint64_t number, std::unique_ptr<Task> task)
      : local_(std::move(local)), number_(number), task_(std::move(task)) {}

  bool advance() override {
    if (local_) local_->come_to(number_);
    local_.reset();
    return task_->advance();
  }
  void rest(std::chrono::microseconds at_most) override { task_->rest(at_most); }

 private:
  std::shared_ptr<Backend> local_;  // until it has been told
  std::uint64_t number_;
  std::unique_ptr<Task> task_;
};

class NodesBackend final : public Backend {
 public:
  NodesBackend(std::shared_ptr<GroupWire> all, std::shared_ptr<GroupWire> rail,
               std::shared_ptr<Backend> local, Topology topology, Choices choices,
               std::shared_ptr<NodeHeap> heap, std::chrono::nanoseconds timeout)
      : all_(std::move(all)),
        topology_(std::move(topology)),
        choices_(std::move(choices)),
        place_(topology_, all_->rank()),
        heap_(std::move(heap)),
        local_(std::move(local)),
        rail_(make_rail(std::move(rail), timeout)),
        flat_(make_flat(timeout)),
        timeout_(timeout),
        steps_(all_->rank(), topology_, local_, rail_, flat_) {}

  std::string name() const override { return text("host (shared memory + ", all_->name(), ")"); }
  bool any_thread() const override { return flat_->any_thread(); }
  Buffer allocate(DataType dtype, std::int64_t count, Contents contents) override {
    return local_->allocate(dtype, count, contents);
  }
  std::unique_ptr<Task> start(Transfers transfers, const Stream& stream) override {
    return flat_->start(std::move(transfers), stream);
  }
  MessageLimits message_limits() const override { return flat_->message_limits(); }
  std::unique_ptr<Task> start(const Operation& operation, const Stream& stream) override {
    return std::make_unique<Announced>(
        local_, operation.number,
        steps_.takes_steps(operation) ? steps_.start(operation) : flat_->start(operation, stream));
  }
  std::shared_ptr<Backend> split(const std::vector<int>& members,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    return make_nodes_backend(rendezvous, all_->split(members, rendezvous), topology_.of(members), choices_,
                              heap_, timeout_, timeout_);
  }
  std::string explain(const Operation& operation) const override;
  SideChannel* side_channel() override { return flat_->side_channel(); }
  PeerStatus* peer_status() override {
    PeerStatus* const far = flat_->peer_status();
    if (far == nullptr) return local_->peer_status();
    if (!status_) status_.emplace(*local_->peer_status(), *far);
    return &*status_;
  }
  void show(std::uint64_t number) override { local_->show(number); }
  std::optional<std::uint64_t> shown(int rank) const override {
    const auto& near = place_.neighbours;
    const auto found = std::ranges::find(near, rank);
    if (found == near.end()) return std::nullopt;
    return local_->shown(static_cast<int>(found - near.begin()));
  }
  std::uint64_t network_bytes() const override { return rail_->network_bytes() + flat_->network_bytes(); }
  void give_up(const Error& error) noexcept override {
    local_->give_up(error);
    rail_->give_up(error);
    flat_->give_up(error);
  }

 private:
  std::shared_ptr<Backend> make_rail(std::shared_ptr<GroupWire> rail, std::chrono::nanoseconds timeout) {
    if (!place_.on_rail()) return make_wire_backend(std::move(rail), choices_, timeout);
    std::vector<bool> are_near(place_.rail.size());
    are_near[static_cast<std::size_t>(place_.node)] = true;
    return make_wire_backend(std::move(rail), choices_, timeout, place_.rail, std::move(are_near));
  }
  std::shared_ptr<Backend> make_flat(std::chrono::nanoseconds timeout) {
    std::vector<int> names;
    std::vector<bool> are_near;
    for (int rank = 0; rank < all_->size(); ++rank) {
      names.push_back(rank);
      are_near.push_back(topology_.node_of(rank) == place_.node);
    }
    return make_wire_backend(all_, choices_, timeout, std::move(names), std::move(are_near));
  }

  std::shared_ptr<GroupWire> all_;
  Topology topology_;
  Choices choices_;
  Rails place_;
  std::shared_ptr<NodeHeap> heap_;
  std::shared_ptr<Backend> local_;
  std::shared_ptr<Backend> rail_;
  std::shared_ptr<Backend> flat_;
  std::chrono::nanoseconds timeout_;
  NodesSteps steps_;
  std::optional<NodesPeerStatus> status_;
};

std::string NodesBackend::explain(const Operation& operation) const {
  if (!steps_.takes_steps(operation)) return text("every rank with every other: ", flat_->explain(operation));
  const bool scatters = operation.kind == Collective::reduce_scatter;
  if (scatters || operation.kind == Collective::all_gather) {
    Operation local = operation;
    local.kind = scatters ? Collective::reduce_parts : Collective::gather_parts;
    local.slices = topology_.size();
    local.parts = &place_.parts;
    return text("within each node: ", local_->explain(local), "; between ", place_.nodes, " nodes, ",
                scatters ? "to" : "from",
                " each part's owner: ", scatters && place_.even ? rail_->explain(operation) : "pairwise");
  }
  Operation carried = operation;
  if (operation.kind != Collective::barrier)
    carried.count = slice_of(operation.count, 0, place_.rails, operation.dtype).count;
  return text("within each node: ", local_->explain(operation), "; between ", place_.nodes, " nodes on ",
              place_.rails, place_.rails == 1 ? " rail: " : " rails: ", rail_->explain(carried));
}

}  // namespace

std::shared_ptr<Backend> make_nodes_backend(const std::shared_ptr<Rendezvous>& rendezvous,
                                            const std::shared_ptr<GroupWire>& wire, const Topology& topology,
                                            const Choices& choices, std::shared_ptr<NodeHeap> heap,
                                            std::chrono::nanoseconds connect_timeout,
                                            std::chrono::nanoseconds timeout) {
  const Rails place(topology, rendezvous->rank());
  if (topology.nodes() == 1) return make_host_backend(rendezvous, std::move(heap), connect_timeout, timeout);
  bool alone = true;
  for (int node = 0; node < topology.nodes(); ++node) alone = alone && topology.ranks_of(node).size() == 1;
  if (alone) return make_wire_backend(wire, choices, timeout);
  const auto node = rendezvous->split(place.neighbours);
  const std::vector<int> on_rail = place.on_rail() ? place.rail : std::vector{rendezvous->rank()};
  const auto rail = wire->split(on_rail, rendezvous->split(on_rail));
  auto local = make_host_backend(node, heap, connect_timeout, timeout, place.neighbours);
  return std::make_shared<NodesBackend>(wire, rail, std::move(local), topology, choices, std::move(heap),
                                        timeout);
}

}  // namespace weft::detail
