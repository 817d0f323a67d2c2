#include <unistd.h>

#include "collectives/bootstrap/device_choice.hpp"
#include "collectives/front/communicator_state.hpp"
#include "collectives/nccl/nccl_backend.hpp"
#include "collectives/shm/host_backend.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"
#include "weft/core/node_heap.hpp"
#if WEFT_HAS_MPI
#include "collectives/mpi/mpi_backend.hpp"
#endif

namespace weft {
namespace {

std::shared_ptr<NodeHeap> make_heap(const World& world) {
  return NodeHeap::create(static_cast<std::size_t>(world.environment().number(env::heap_bytes)));
}

std::shared_ptr<detail::Backend> between_nodes(const World& world, const Topology& topology,
                                               [[maybe_unused]] const ConnectOptions& options) {
#if WEFT_HAS_MPI
  if (const auto rendezvous = std::dynamic_pointer_cast<detail::MpiRendezvous>(world.rendezvous())) {
    const auto notes = rendezvous->all_gather(
        detail::Choices::note(world.rank(), world.environment(), options.order, options.algorithms),
        "connect: choices of algorithms", Deadline::in(world.connect_timeout()));
    return detail::make_nodes_backend(rendezvous, topology, detail::Choices::agreed(notes), make_heap(world),
                                      world.connect_timeout(), world.timeout());
  }
#endif
  throw Error(ErrorKind::usage,
              text("the ", world.size(), " ranks are on ", topology.nodes(),
                   " nodes, and they did not meet through MPI"),
              "start them with mpirun (in a build with MPI), or keep them on one node",
              {world.rank(), "connect", 0});
}

std::shared_ptr<detail::Backend> make_backend(const World& world, const Topology& topology,
                                              const ConnectOptions& options) {
  if (world.size() == 1)
    return detail::make_threads_backend(world.rendezvous(), {.timeout = world.timeout()});
  if (topology.nodes() > 1) return between_nodes(world, topology, options);
  return detail::make_host_backend(world.rendezvous(), make_heap(world), world.connect_timeout(),
                                   world.timeout());
}

/// NCCL beside the host's backend.
std::shared_ptr<detail::Backend> with_device(std::shared_ptr<detail::Backend> host, const World& world,
                                             const ConnectOptions& options, bool shared_devices) {
  auto api = detail::nccl::Api::load(world.environment().value(env::nccl_library));
  if (shared_devices) detail::let_nccl_share_devices(world.rank(), api->version);
  return detail::make_nccl_backend(
      std::move(host), std::move(api), world.rendezvous(), world.device(),
      {.timeout = world.timeout(), .min_ctas = options.min_ctas, .max_ctas = options.max_ctas},
      world.connect_timeout());
}

/// One folder for the ranks of a job, on each of its nodes.
std::shared_ptr<FlightRecorder> make_recorder(const World& world) {
  const auto jobs = world.rendezvous()->all_gather(FlightRecorder::process_name(), "connect: flight record",
                                                   Deadline::in(world.connect_timeout()));
  std::string folder = world.environment().value(env::flight_dir);
  if (folder == "off") folder.clear();
  if (folder == "auto") folder = text("/tmp/weft-flight-", getuid(), '/', jobs.front());
  return std::make_shared<FlightRecorder>(world.rank(), world.size(), folder);
}

}  // namespace

Communicator connect(const World& world, const ConnectOptions& options) {
  const auto deadline = Deadline::in(world.connect_timeout());
  const auto mine = detail::Place::of(world.host_id(), world.device());
  std::vector<detail::Place> places;
  std::vector<std::string> hosts;
  for (const std::string& note : world.rendezvous()->all_gather(mine.note(), "connect", deadline)) {
    places.push_back(detail::Place::from(note));
    hosts.push_back(places.back().host_id);
  }
  const bool shared_devices = detail::check_places(places, detail::may_share_devices(world.environment()));
  const Topology topology(hosts);
  auto backend = make_backend(world, topology, options);
  if (!world.device().is_host()) backend = with_device(std::move(backend), world, options, shared_devices);
  auto communicator =
      detail::make_communicator(std::move(backend), world.rendezvous(), topology, world.timeout(),
                                options.trace, {.recorder = make_recorder(world)});
  log::info(text("rank ", world.rank(), " of ", world.size(), " on ", topology.nodes(),
                 " node(s) connected: ", communicator.backend()));
  return communicator;
}

}  // namespace weft
