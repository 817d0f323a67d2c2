#pragma once
// The backend of ranks that are each a node: flows of MPI messages on weft's own duplicate of the
// communicator.

#include <memory>
#include <vector>

#include "collectives/exchange/choice.hpp"
#include "collectives/front/backend.hpp"
#include "collectives/mpi/mpi_rendezvous.hpp"
#include "weft/collectives/topology.hpp"

namespace weft {
class NodeHeap;
}

namespace weft::detail {

/// Each rank is a node of its own.
std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous, const Choices& choices,
                                          std::chrono::nanoseconds timeout);
/// @param names what messages call the ranks @param are_near whether a rank is on this one's node
std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous, const Choices& choices,
                                          std::chrono::nanoseconds timeout, std::vector<int> names,
                                          std::vector<bool> are_near);

/// Ranks on several nodes, nodes/: shared memory within each, MPI between them, which carries as little as if
/// every node were one rank. Where each node has one rank it is the one above, on a single node the host
/// backend. Collective over `rendezvous`.
std::shared_ptr<Backend> make_nodes_backend(const std::shared_ptr<MpiRendezvous>& rendezvous,
                                            const Topology& topology, const Choices& choices,
                                            std::shared_ptr<NodeHeap> heap,
                                            std::chrono::nanoseconds connect_timeout,
                                            std::chrono::nanoseconds timeout);

}  // namespace weft::detail
