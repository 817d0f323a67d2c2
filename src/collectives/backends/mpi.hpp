#pragma once
// The backend of ranks that are each a node: flows of MPI messages on weft's own duplicate of the
// communicator.

#include <memory>
#include <vector>

#include "collectives/algorithms/choice.hpp"
#include "collectives/backend.hpp"
#include "collectives/mpi_rendezvous.hpp"

namespace weft::detail {

/// Each rank is a node of its own.
std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous, const Choices& choices,
                                          std::chrono::nanoseconds timeout);
/// @param names what messages call the ranks @param are_near whether a rank is on this one's node
std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous, const Choices& choices,
                                          std::chrono::nanoseconds timeout, std::vector<int> names,
                                          std::vector<bool> are_near);

}  // namespace weft::detail
