#pragma once
// The transports between nodes: the one list of them. A new transport is a row here, and a room beside this with the function that makes its wire
// (docs/contributing/transport.md).

#include <array>
#include <chrono>
#include <memory>
#include <string_view>

#include "collectives/network/engine/wire.hpp"
#include "weft/core/env.hpp"

// The value of WEFT_TRANSPORT, which is the wire's name in small letters, and whether this build has it.
#define WEFT_TRANSPORTS(ROW) \
  ROW(ucx, WEFT_HAS_UCX)     \
  ROW(tcp, WEFT_HAS_BOOST)   \
  ROW(mpi, WEFT_HAS_MPI)

namespace weft::detail {

#define WEFT_NAME_OF_TRANSPORT(name, is_built) std::string_view(#name),
inline constexpr std::array transport_names{WEFT_TRANSPORTS(WEFT_NAME_OF_TRANSPORT)};
#undef WEFT_NAME_OF_TRANSPORT

/// The wire of all ranks of `rendezvous`. Collective. @param timeout of a split @throws Error if the ranks cannot be connected
using WireMaker = std::shared_ptr<Wire>(const std::shared_ptr<Rendezvous>& rendezvous,
                                        const Environment& environment, Deadline deadline,
                                        std::chrono::nanoseconds timeout);

// make_mpi_wire, which takes a rendezvous through MPI, make_ucx_wire and so on
#define WEFT_MAKER_OF_TRANSPORT(name, is_built) WireMaker make_##name##_wire;
WEFT_TRANSPORTS(WEFT_MAKER_OF_TRANSPORT)
#undef WEFT_MAKER_OF_TRANSPORT

}  // namespace weft::detail
