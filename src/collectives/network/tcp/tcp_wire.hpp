#pragma once
// Messages between nodes over TCP: plain sockets, where there is neither MPI nor UCX.

#include "collectives/network/engine/wire.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {

/// The wire of all ranks of `rendezvous`. Collective. @param timeout of a split
/// @throws Error as TcpPeers
std::shared_ptr<Wire> make_tcp_wire(const std::shared_ptr<Rendezvous>& rendezvous,
                                    const Environment& environment, Deadline deadline,
                                    std::chrono::nanoseconds timeout);

}  // namespace weft::detail
