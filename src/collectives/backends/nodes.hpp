#pragma once
// The backend of ranks on several nodes: shared memory within each, MPI between them, and what goes between
// is as little as if every node were one rank.

#include <memory>

#include "collectives/algorithms/choice.hpp"
#include "collectives/backend.hpp"
#include "collectives/mpi_rendezvous.hpp"
#include "weft/collectives/topology.hpp"

namespace weft {
class NodeHeap;
}

namespace weft::detail {

/// The backend that suits where the ranks are: shared memory, MPI, or both. Collective over `rendezvous`.
std::shared_ptr<Backend> make_nodes_backend(const std::shared_ptr<MpiRendezvous>& rendezvous,
                                            const Topology& topology, const Choices& choices,
                                            std::shared_ptr<NodeHeap> heap,
                                            std::chrono::nanoseconds connect_timeout,
                                            std::chrono::nanoseconds timeout);

}  // namespace weft::detail
