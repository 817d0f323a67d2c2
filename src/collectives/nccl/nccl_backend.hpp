#pragma once
// The backend of memory on a CUDA device: NCCL beside a host backend, which takes what lies on the host and
// tells how the other ranks fare.

#include <memory>
#include <optional>

#include "collectives/backend/backend.hpp"
#include "collectives/nccl/nccl_communicator.hpp"

namespace weft::detail {

/// Collective over `rendezvous`. @throws Error: (usage) when NCCL refuses the set-up, (system) without NCCL,
/// (timeout)
std::shared_ptr<Backend> make_nccl_backend(std::shared_ptr<Backend> host,
                                           std::shared_ptr<const nccl::Api> api,
                                           const std::shared_ptr<Rendezvous>& rendezvous, Device device,
                                           nccl::Options options, std::chrono::nanoseconds connect_timeout);

}  // namespace weft::detail
