#pragma once
// The transports between nodes: the one list of them. A new transport is a row here, and a room beside this with the function that makes its Peers
// (docs/contributing/transport.md).

#include <array>
#include <memory>
#include <string_view>

#include "collectives/network/engine/peers.hpp"
#include "weft/core/env.hpp"

// The value of WEFT_TRANSPORT, which is the transport's name in small letters, and whether this build has it.
#define WEFT_TRANSPORTS(ROW) \
  ROW(ucx, WEFT_HAS_UCX)     \
  ROW(tcp, WEFT_HAS_BOOST)   \
  ROW(mpi, WEFT_HAS_MPI)

namespace weft::detail {

#define WEFT_NAME_OF_TRANSPORT(name, is_built) std::string_view(#name),
inline constexpr std::array transport_names{WEFT_TRANSPORTS(WEFT_NAME_OF_TRANSPORT)};
#undef WEFT_NAME_OF_TRANSPORT

/// The ranks of `rendezvous`, connected. Collective. @throws Error if they cannot be
using PeersMaker = std::shared_ptr<Peers>(Rendezvous& rendezvous, const Environment& environment,
                                          Deadline deadline);

// make_mpi_peers, which takes a rendezvous through MPI, make_ucx_peers and so on
#define WEFT_MAKER_OF_TRANSPORT(name, is_built) PeersMaker make_##name##_peers;
WEFT_TRANSPORTS(WEFT_MAKER_OF_TRANSPORT)
#undef WEFT_MAKER_OF_TRANSPORT

}  // namespace weft::detail
