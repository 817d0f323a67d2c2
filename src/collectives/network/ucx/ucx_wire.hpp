#pragma once
// UCX as a wire: messages with tags, which UCX matches.

#include <memory>

#include "collectives/network/engine/wire.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {

/// The wire of all ranks of `rendezvous`. Collective. @param timeout of a split
/// @throws Error as UcxPeers
std::shared_ptr<Wire> make_ucx_wire(const std::shared_ptr<Rendezvous>& rendezvous,
                                    const Environment& environment, Deadline deadline,
                                    std::chrono::nanoseconds timeout);

}  // namespace weft::detail
