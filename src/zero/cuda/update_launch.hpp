#pragma once
// The kernel beside update() of zero/update_kernel.hpp, which is its twin: the same bits. Runs in the order
// of `stream`, on its device, which must be current; returns what the launch returned.

#include <cuda_runtime_api.h>

#include "zero/update_kernel.hpp"

namespace weft::detail::cuda::kernels {

cudaError_t update(const StepArrays& arrays, const StepFactors& factors, cudaStream_t stream);

}  // namespace weft::detail::cuda::kernels
