#pragma once
// Element-wise work on gradients outside collectives, on the host and on CUDA devices.

#include <cstdint>

#include "weft/core/view.hpp"

#if defined(__CUDACC__) || WEFT_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace weft::detail {

/// data[i] /= divisor, in the type that sums are taken in, rounded once. Floating-point host data.
void divide(View data, std::int64_t divisor);

#if defined(__CUDACC__) || WEFT_HAS_CUDA
/// The same on a device, in the order of `stream`.
void divide(View data, std::int64_t divisor, cudaStream_t stream);
#endif

}  // namespace weft::detail
