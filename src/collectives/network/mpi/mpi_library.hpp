#pragma once
// MPI's own collectives, posted and polled beside weft's own plans over MPI's messages. Neither blocks.

#include <memory>

#include "collectives/backend/backend.hpp"
#include "collectives/network/mpi/mpi_rendezvous.hpp"

namespace weft::detail {

/// Carries `operation` out by MPI_Iallreduce and its like, which choose their steps themselves. 16-bit types
/// travel with an operation of ours. @throws Error (usage) above MPI's 2^31 - 1 elements
std::unique_ptr<Task> make_mpi_library_collective(std::shared_ptr<MpiRendezvous> rendezvous,
                                                  const Operation& operation,
                                                  std::chrono::nanoseconds timeout);

}  // namespace weft::detail
