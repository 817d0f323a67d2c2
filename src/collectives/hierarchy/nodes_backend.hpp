#pragma once
// The backend of ranks on several nodes: shared memory within each, a wire between them, which carries as little as if
// every node were one rank.

#include <memory>

#include "collectives/network/engine/wire.hpp"
#include "collectives/network/plan/choice.hpp"
#include "weft/collectives/topology.hpp"

namespace weft {
class NodeHeap;
}

namespace weft::detail {

/// Where each node has one rank it is wire/'s backend, on a single node the host backend. Collective over `rendezvous`.
/// @param wire of the same ranks
std::shared_ptr<Backend> make_nodes_backend(const std::shared_ptr<Rendezvous>& rendezvous,
                                            const std::shared_ptr<GroupWire>& wire, const Topology& topology,
                                            const Choices& choices, std::shared_ptr<NodeHeap> heap,
                                            std::chrono::nanoseconds connect_timeout,
                                            std::chrono::nanoseconds timeout);

}  // namespace weft::detail
