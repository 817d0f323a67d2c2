#pragma once
// Device memory that NCCL knows: no copies through its own buffers, and on NVLink kernels that read and write
// peers directly.

#include "collectives/nccl/issuer.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail::nccl {

/// Zeroed. From NCCL's allocator and registered with the communicator, as a window from NCCL 2.27 on, which
/// makes this collective: every rank asks for the same, in the same order; before 2.19 plain device memory.
/// The Buffer may outlive the communicator.
Buffer allocate(const std::shared_ptr<Issuer>& issuer, const std::shared_ptr<cuda::Runtime>& runtime,
                Device device, DataType dtype, std::int64_t count);

}  // namespace weft::detail::nccl
