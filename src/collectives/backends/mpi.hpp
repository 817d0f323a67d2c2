#pragma once
// The backend of ranks that are each a node: flows of MPI messages on weft's own duplicate of the
// communicator.

#include <memory>

#include "collectives/backend.hpp"
#include "collectives/mpi_rendezvous.hpp"

namespace weft::detail {

/// @param names what messages call the ranks; empty: their own numbers
std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous,
                                          std::chrono::nanoseconds timeout, std::vector<int> names = {});

}  // namespace weft::detail
