#include "collectives/backends/host.hpp"
#include "collectives/backends/threads.hpp"
#include "collectives/communicator_state.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"
#include "weft/core/node_heap.hpp"
#if WEFT_HAS_MPI
#include "collectives/backends/mpi.hpp"
#endif

namespace weft {
namespace {

std::shared_ptr<detail::Backend> between_nodes(const World& world, const Topology& topology) {
#if WEFT_HAS_MPI
  if (auto rendezvous = std::dynamic_pointer_cast<detail::MpiRendezvous>(world.rendezvous())) {
    return detail::make_mpi_backend(std::move(rendezvous), world.timeout());
  }
#endif
  throw Error(ErrorKind::usage,
              text("the ", world.size(), " ranks are on ", topology.nodes(),
                   " nodes, and they did not meet through MPI"),
              "start them with mpirun (in a build with MPI), or keep them on one node",
              {world.rank(), "connect", 0});
}

std::shared_ptr<detail::Backend> make_backend(const World& world, const Topology& topology) {
  if (world.size() == 1)
    return detail::make_threads_backend(world.rendezvous(), {.timeout = world.timeout()});
  if (topology.nodes() > 1) return between_nodes(world, topology);
  const auto capacity = static_cast<std::size_t>(world.environment().number(env::heap_bytes));
  return detail::make_host_backend(world.rendezvous(), NodeHeap::create(capacity), world.connect_timeout(),
                                   world.timeout());
}

}  // namespace

Communicator connect(const World& world, const ConnectOptions& options) {
  const auto deadline = Deadline::in(world.connect_timeout());
  const Topology topology(world.rendezvous()->all_gather(world.host_id(), "connect", deadline));
  auto communicator = detail::make_communicator(make_backend(world, topology), world.rendezvous(), topology,
                                                world.timeout(), options.trace);
  log::info(text("rank ", world.rank(), " of ", world.size(), " on ", topology.nodes(),
                 " node(s) connected: ", communicator.backend()));
  return communicator;
}

}  // namespace weft
