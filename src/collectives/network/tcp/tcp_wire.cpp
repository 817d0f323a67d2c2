#include "collectives/network/tcp/tcp_wire.hpp"

#include "collectives/network/tcp/tcp_peers.hpp"

namespace weft::detail {

std::shared_ptr<Wire> make_tcp_wire(const std::shared_ptr<Rendezvous>& rendezvous,
                                    const Environment& environment, Deadline deadline,
                                    std::chrono::nanoseconds timeout) {
  return make_group_wire(std::make_shared<TcpPeers>(*rendezvous, environment, deadline), *rendezvous,
                         deadline, timeout);
}

}  // namespace weft::detail
