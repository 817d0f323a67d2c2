// Collectives over nodes in three steps: within each node, between nodes, within each node.
//
// Each rail carries its slice between the nodes, at the same time as the others. Sums are taken in rank
// order within a node and then in the order of nodes, so every rank holds the same bits, and 16-bit types are
// rounded once more a node.

#include "collectives/backends/nodes.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/algorithms/slices.hpp"
#include "collectives/backends/host.hpp"
#include "collectives/backends/mpi.hpp"
#include "collectives/rails.hpp"
#include "collectives/sequence.hpp"
#include "weft/core/error.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::detail {
namespace {

class NodesBackend final : public Backend {
 public:
  NodesBackend(std::shared_ptr<MpiRendezvous> all, std::shared_ptr<MpiRendezvous> rail,
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
        timeout_(timeout) {}

  std::string name() const override { return "host (shared memory + MPI)"; }
  bool any_thread() const override { return flat_->any_thread(); }
  Buffer allocate(DataType dtype, std::int64_t count) override { return local_->allocate(dtype, count); }
  std::unique_ptr<Task> start(std::vector<Transfer> transfers, const Stream& stream) override {
    return flat_->start(std::move(transfers), stream);
  }
  std::unique_ptr<Task> start(const Operation& operation, const Stream& stream) override;
  std::shared_ptr<Backend> split(const std::vector<int>& members,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    return make_nodes_backend(std::dynamic_pointer_cast<MpiRendezvous>(rendezvous), topology_.of(members),
                              choices_, heap_, timeout_, timeout_);
  }
  std::string explain(const Operation& operation) const override;
  Board* board() override { return flat_->board(); }
  void show(std::uint64_t number) override { local_->show(number); }
  std::optional<std::uint64_t> shown(int rank) const override {
    const auto& near = place_.neighbours;
    const auto found = std::ranges::find(near, rank);
    if (found == near.end()) return std::nullopt;
    return local_->shown(static_cast<int>(found - near.begin()));
  }
  std::uint64_t network_bytes() const override { return rail_->network_bytes() + flat_->network_bytes(); }
  void give_up(const std::string& reason) noexcept override {
    local_->give_up(reason);
    rail_->give_up(reason);
  }

 private:
  using Steps = std::vector<Sequence::Step>;

  std::shared_ptr<Backend> make_rail(std::shared_ptr<MpiRendezvous> rail, std::chrono::nanoseconds timeout) {
    if (!place_.on_rail()) return make_mpi_backend(std::move(rail), choices_, timeout);
    std::vector<bool> are_near(place_.rail.size());
    are_near[static_cast<std::size_t>(place_.node)] = true;
    return make_mpi_backend(std::move(rail), choices_, timeout, place_.rail, std::move(are_near));
  }
  std::shared_ptr<Backend> make_flat(std::chrono::nanoseconds timeout) {
    std::vector<int> names;
    std::vector<bool> are_near;
    for (int rank = 0; rank < all_->size(); ++rank) {
      names.push_back(rank);
      are_near.push_back(topology_.node_of(rank) == place_.node);
    }
    return make_mpi_backend(all_, choices_, timeout, std::move(names), std::move(are_near));
  }
  /// Whether the three steps give what the operation promises.
  bool takes_steps(const Operation& operation) const;
  Steps steps_of(const Operation& operation);
  Steps all_reduce(const Operation& operation);
  Steps reduce(const Operation& operation);
  Steps reduce_scatter(const Operation& operation);
  Steps all_gather(const Operation& operation);
  Steps broadcast(const Operation& operation);
  Steps barrier();

  void within(Steps& steps, Operation operation);
  void between(Steps& steps, Operation operation);
  /// The slice of `data` that this rank's rail carries, in place.
  void between_slices(Steps& steps, Collective kind, View data, ReduceOp op, int root = 0);
  /// The sums of this node, by slices, in `data`.
  void reduce_slices(Steps& steps, const Operation& operation, ConstView in, View data);
  void gather_slices(Steps& steps, View data);
  static void copy(Steps& steps, ConstView from, View to);
  /// `wanted`, or room of the same size, where the node's ranks reach.
  View reachable(View wanted);
  View room(DataType dtype, std::int64_t count);
  Slice my_slice(const View& data) const {
    return slice_of(data.count(), place_.local, place_.rails, data.dtype());
  }

  std::shared_ptr<MpiRendezvous> all_;
  Topology topology_;
  Choices choices_;
  Rails place_;
  std::shared_ptr<NodeHeap> heap_;
  std::shared_ptr<Backend> local_;
  std::shared_ptr<Backend> rail_;
  std::shared_ptr<Backend> flat_;
  std::chrono::nanoseconds timeout_;
  std::uint64_t within_ = 0;
  std::uint64_t between_ = 0;
  // Operations follow each other, so one room serves all of them. An older, smaller one lives on with the
  // steps that were planned for it.
  std::shared_ptr<Buffer> room_;
};

bool NodesBackend::takes_steps(const Operation& operation) const {
  switch (operation.kind) {
    case Collective::all_reduce:
    case Collective::reduce:
      // The mean of integers is rounded once, so their sum must not be.
      return operation.op != ReduceOp::avg || is_floating(operation.dtype);
    case Collective::reduce_scatter:
      return place_.even && (operation.op != ReduceOp::avg || is_floating(operation.dtype));
    case Collective::all_gather:
      return place_.even;
    case Collective::broadcast:
    case Collective::barrier:
      return true;
    default:
      return false;  // of all_to_all every byte goes to one rank only
  }
}

std::unique_ptr<Task> NodesBackend::start(const Operation& operation, const Stream& stream) {
  if (!takes_steps(operation)) return flat_->start(operation, stream);
  Steps steps = steps_of(operation);
  return std::make_unique<Sequence>(std::move(steps), room_);
}

NodesBackend::Steps NodesBackend::steps_of(const Operation& operation) {
  switch (operation.kind) {
    case Collective::all_reduce:
      return all_reduce(operation);
    case Collective::reduce:
      return reduce(operation);
    case Collective::reduce_scatter:
      return reduce_scatter(operation);
    case Collective::all_gather:
      return all_gather(operation);
    case Collective::broadcast:
      return broadcast(operation);
    default:
      return barrier();
  }
}

void NodesBackend::within(Steps& steps, Operation operation) {
  operation.number = ++within_;
  steps.push_back([this, operation] { return local_->start(operation, Stream()); });
}

void NodesBackend::between(Steps& steps, Operation operation) {
  if (!place_.on_rail()) return;
  operation.number = ++between_;
  steps.push_back([this, operation] { return rail_->start(operation, Stream()); });
}

void NodesBackend::copy(Steps& steps, ConstView from, View to) {
  if (from.data() == to.data() || to.empty()) return;
  steps.push_back([from, to]() -> std::unique_ptr<Task> {
    std::memcpy(to.data(), from.data(), to.size_bytes());
    return nullptr;
  });
}

View NodesBackend::room(DataType dtype, std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  if (!room_ || room_->size_bytes() < bytes)
    room_ = std::make_shared<Buffer>(local_->allocate(DataType::u8, static_cast<std::int64_t>(bytes)));
  return {room_->view().data(), count, dtype};
}

View NodesBackend::reachable(View wanted) {
  return local_->reaches(wanted) ? wanted : room(wanted.dtype(), wanted.count());
}

void NodesBackend::reduce_slices(Steps& steps, const Operation& operation, ConstView in, View data) {
  if (!local_->reaches(in)) {
    copy(steps, in, data);
    in = data;
  }
  within(steps, {.kind = Collective::reduce_slices,
                 .in = in,
                 .out = data,
                 .count = data.count(),
                 .dtype = data.dtype(),
                 .op = operation.op,
                 .slices = place_.rails,
                 .averaged = all_->size()});
}

void NodesBackend::gather_slices(Steps& steps, View data) {
  within(steps, {.kind = Collective::gather_slices,
                 .in = data,
                 .out = data,
                 .count = data.count(),
                 .dtype = data.dtype(),
                 .slices = place_.rails});
}

/// Of sums that were divided within the nodes, so that 16-bit types do not overflow.
ReduceOp between_nodes(ReduceOp op) {
  return op == ReduceOp::avg ? ReduceOp::sum : op;
}

void NodesBackend::between_slices(Steps& steps, Collective kind, View data, ReduceOp op, int root) {
  const Slice mine = my_slice(data);
  const View slice = data.slice(mine.begin, mine.count);
  between(steps, {.kind = kind,
                  .in = slice,
                  .out = slice,
                  .count = mine.count,
                  .dtype = data.dtype(),
                  .op = between_nodes(op),
                  .root = root});
}

NodesBackend::Steps NodesBackend::all_reduce(const Operation& operation) {
  Steps steps;
  const View data = reachable(operation.out);
  reduce_slices(steps, operation, operation.in, data);
  between_slices(steps, Collective::all_reduce, data, operation.op);
  gather_slices(steps, data);
  copy(steps, data, operation.out);
  return steps;
}

NodesBackend::Steps NodesBackend::reduce(const Operation& operation) {
  Steps steps;
  const bool is_root = all_->rank() == operation.root;
  const View data = is_root ? reachable(operation.out) : room(operation.dtype, operation.count);
  reduce_slices(steps, operation, operation.in, data);
  const int node = topology_.node_of(operation.root);
  between_slices(steps, Collective::reduce, data, operation.op, node);
  if (node == place_.node) gather_slices(steps, data);
  if (is_root) copy(steps, data, operation.out);
  return steps;
}

NodesBackend::Steps NodesBackend::reduce_scatter(const Operation& operation) {
  Steps steps;
  const std::int64_t count = operation.count;
  const std::int64_t block = count * static_cast<std::int64_t>(place_.neighbours.size());
  // By node: what this rail's rank there is to get, summed over this node.
  const View sums = room(operation.dtype, count * place_.nodes);
  for (int node = 0; node < place_.nodes; ++node) {
    within(steps, {.kind = Collective::reduce_scatter,
                   .in = operation.in.slice(block * node, block),
                   .out = sums.slice(count * node, count),
                   .count = count,
                   .dtype = operation.dtype,
                   .op = operation.op,
                   .averaged = all_->size()});
  }
  between(steps, {.kind = Collective::reduce_scatter,
                  .in = sums,
                  .out = operation.out,
                  .count = count,
                  .dtype = operation.dtype,
                  .op = between_nodes(operation.op)});
  return steps;
}

NodesBackend::Steps NodesBackend::all_gather(const Operation& operation) {
  Steps steps;
  const std::int64_t block = operation.count * static_cast<std::int64_t>(place_.neighbours.size());
  const View data = reachable(operation.out);
  const View own = data.slice(block * place_.node, block);
  within(steps, {.kind = Collective::all_gather,
                 .in = operation.in,
                 .out = own,
                 .count = operation.count,
                 .dtype = operation.dtype});
  const Slice mine = my_slice(own);
  std::vector<Transfer> transfers;
  for (int step = 1; step < place_.nodes && mine.count > 0; ++step) {
    const int node = (place_.node + step) % place_.nodes;
    transfers.push_back({{},
                         data.slice(block * node + mine.begin, mine.count),
                         place_.rail[static_cast<std::size_t>(node)],
                         false});
    transfers.push_back(
        {own.slice(mine.begin, mine.count), {}, place_.rail[static_cast<std::size_t>(node)], true});
  }
  steps.push_back([this, transfers] { return flat_->start(transfers, Stream()); });
  for (int node = 0; node < place_.nodes; ++node) {
    if (node != place_.node) gather_slices(steps, data.slice(block * node, block));
  }
  copy(steps, data, operation.out);
  return steps;
}

NodesBackend::Steps NodesBackend::broadcast(const Operation& operation) {
  Steps steps;
  const int node = topology_.node_of(operation.root);
  const View data = reachable(operation.out);
  if (node == place_.node) {
    if (all_->rank() == operation.root) copy(steps, operation.in, data);
    within(steps, {.kind = Collective::broadcast,
                   .in = data,
                   .out = data,
                   .count = data.count(),
                   .dtype = data.dtype(),
                   .root = topology_.local_rank(operation.root)});
  }
  between_slices(steps, Collective::broadcast, data, ReduceOp::sum, node);
  if (node != place_.node) gather_slices(steps, data);
  if (all_->rank() != operation.root) copy(steps, data, operation.out);
  return steps;
}

std::string NodesBackend::explain(const Operation& operation) const {
  if (!takes_steps(operation)) return text("every rank with every other: ", flat_->explain(operation));
  const bool is_sliced =
      operation.kind != Collective::reduce_scatter && operation.kind != Collective::barrier;
  Operation carried = operation;
  if (is_sliced) carried.count = slice_of(operation.count, 0, place_.rails, operation.dtype).count;
  const std::string between = operation.kind == Collective::all_gather ? "pairwise" : rail_->explain(carried);
  return text("within each node: ", local_->explain(operation), "; between ", place_.nodes, " nodes on ",
              place_.rails, place_.rails == 1 ? " rail: " : " rails: ", between);
}

NodesBackend::Steps NodesBackend::barrier() {
  Steps steps;
  within(steps, {.kind = Collective::barrier});
  between(steps, {.kind = Collective::barrier});
  within(steps, {.kind = Collective::barrier});
  return steps;
}

}  // namespace

std::shared_ptr<Backend> make_nodes_backend(const std::shared_ptr<MpiRendezvous>& rendezvous,
                                            const Topology& topology, const Choices& choices,
                                            std::shared_ptr<NodeHeap> heap,
                                            std::chrono::nanoseconds connect_timeout,
                                            std::chrono::nanoseconds timeout) {
  const Rails place(topology, rendezvous->rank());
  if (topology.nodes() == 1) return make_host_backend(rendezvous, std::move(heap), connect_timeout, timeout);
  bool alone = true;
  for (int node = 0; node < topology.nodes(); ++node) alone = alone && topology.ranks_of(node).size() == 1;
  if (alone) return make_mpi_backend(rendezvous, choices, timeout);
  const auto node = rendezvous->split(place.neighbours);
  const auto rail = rendezvous->split(place.on_rail() ? place.rail : std::vector{rendezvous->rank()});
  auto local = make_host_backend(node, heap, connect_timeout, timeout, place.neighbours);
  return std::make_shared<NodesBackend>(rendezvous, std::dynamic_pointer_cast<MpiRendezvous>(rail),
                                        std::move(local), topology, choices, std::move(heap), timeout);
}

}  // namespace weft::detail
