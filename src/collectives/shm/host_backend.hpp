#pragma once
// The backend of processes that share a node: the shared-memory algorithms over a node heap.

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/backend/backend.hpp"

namespace weft {
class NodeHeap;
}

namespace weft::detail {

/// Collective over `rendezvous`, whose ranks are processes of this node.
/// @param names what messages call the ranks; empty: their own numbers
std::shared_ptr<Backend> make_host_backend(const std::shared_ptr<Rendezvous>& rendezvous,
                                           std::shared_ptr<NodeHeap> heap,
                                           std::chrono::nanoseconds connect_timeout,
                                           std::chrono::nanoseconds timeout, std::vector<int> names = {});

/// What the shared memory of a node takes for one rank: differs where builds lay it out differently.
std::size_t shared_bytes_of_a_rank();

}  // namespace weft::detail
