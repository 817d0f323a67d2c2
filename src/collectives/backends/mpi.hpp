#pragma once
// The backend of ranks on several nodes: phases of MPI messages on weft's own duplicate of the communicator.

#include <memory>

#include "collectives/backend.hpp"
#include "collectives/mpi_rendezvous.hpp"

namespace weft::detail {

std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous,
                                          std::chrono::nanoseconds timeout);

}  // namespace weft::detail
