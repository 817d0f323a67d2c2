#pragma once
// A TCP connection between each two ranks of a world.
//
// Every rank listens, tells the others its addresses, its port and a secret of this job through the rendezvous, and is called by all ranks above
// it, at all addresses at once: the first that answers is taken. Who calls sends the secret of the rank that it calls, and gets
// its own back, so that neither takes a stranger for a rank. Nothing is encrypted (docs/security.md). The listener closes when all are there.

#include <map>
#include <memory>

#include "collectives/tcp/tcp_asio.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {

struct TcpLinks {
  std::unique_ptr<asio::io_context> context;  ///< before its sockets
  std::map<int, tcp::socket> sockets;         ///< by rank, without the own one; non-blocking
};

/// Collective over `rendezvous`. @throws Error (usage) where WEFT_INTERFACE names none of this machine's, (timeout) with the ranks that were
/// not reached and where, (system)
TcpLinks connect_by_tcp(Rendezvous& rendezvous, const Environment& environment, Deadline deadline);

}  // namespace weft::detail
