#pragma once
// The two ways to carry out a collective between nodes: weft's own plan over messages, and MPI's own
// collective. Both are posted and polled, and never block.

#include <atomic>
#include <memory>

#include "collectives/exchange/exchange.hpp"
#include "collectives/mpi/mpi_rendezvous.hpp"
#include "collectives/mpi/mpi_runtime.hpp"

namespace weft::detail {

/// The ranks of an MPI communicator as one of them sees them, and what it has sent.
struct MpiPeers {
  std::shared_ptr<MpiRendezvous> rendezvous;
  std::vector<int> names;      ///< what messages call them
  std::vector<bool> are_near;  ///< whether they are on this rank's node
  std::atomic<std::uint64_t> network_bytes = 0;
  ScratchPool scratch;
};

/// Carries out an ExchangePlan: every flow in segments, several of which are in flight.
/// @param tag of the first stage; the others follow
std::unique_ptr<Task> make_mpi_exchange(std::shared_ptr<MpiPeers> peers, ExchangePlan plan, int tag,
                                        std::chrono::nanoseconds timeout);

/// Carries `operation` out by MPI_Iallreduce and its like, which choose their steps themselves. 16-bit types
/// travel with an operation of ours. @throws Error (usage) above MPI's 2^31 - 1 elements
std::unique_ptr<Task> make_mpi_library_collective(std::shared_ptr<MpiRendezvous> rendezvous,
                                                  const Operation& operation,
                                                  std::chrono::nanoseconds timeout);

}  // namespace weft::detail
