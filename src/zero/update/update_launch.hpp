#pragma once
// Launches the CUDA kernel of an optimizer's step, with the same bits as update() of update_kernel.hpp. It
// runs in the order of `stream`, whose device must be current; the result is that of the launch.

#include <cuda_runtime_api.h>

#include "zero/update/update_kernel.hpp"

namespace weft::detail::cuda::kernels {

cudaError_t update(const StepArrays& arrays, const StepFactors& factors, cudaStream_t stream);

}  // namespace weft::detail::cuda::kernels
