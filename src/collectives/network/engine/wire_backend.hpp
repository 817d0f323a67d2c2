#pragma once
// The backend of ranks that are each a node: plans of flows, carried out by messages on a wire.

#include <atomic>
#include <memory>
#include <vector>

#include "collectives/network/engine/wire.hpp"
#include "collectives/network/plan/choice.hpp"
#include "collectives/network/plan/exchange.hpp"

namespace weft::detail {

/// The ranks of a wire as one of them sees them, and what it has sent.
struct WirePeers {
  std::shared_ptr<GroupWire> wire;
  std::vector<int> names;      ///< what messages call them
  std::vector<bool> are_near;  ///< whether they are on this rank's node
  std::atomic<std::uint64_t> network_bytes = 0;
  ScratchPool scratch;
};

/// Carries out an ExchangePlan: every flow in segments, several of which are in flight.
/// @param tag of the first stage; the others follow
std::unique_ptr<Task> make_wire_exchange(std::shared_ptr<WirePeers> peers, ExchangePlan plan, int tag,
                                         std::chrono::nanoseconds timeout);

/// Each rank is a node of its own.
std::shared_ptr<Backend> make_wire_backend(std::shared_ptr<GroupWire> wire, const Choices& choices,
                                           std::chrono::nanoseconds timeout);
/// @param names what messages call the ranks @param are_near whether a rank is on this one's node
std::shared_ptr<Backend> make_wire_backend(std::shared_ptr<GroupWire> wire, const Choices& choices,
                                           std::chrono::nanoseconds timeout, std::vector<int> names,
                                           std::vector<bool> are_near);

}  // namespace weft::detail
