#pragma once
// Launches the CUDA kernels of an optimizer's step, with the same bits as update() of update_kernel.hpp and
// add_squares() of zero/optimizer/gradient_norm.hpp. They run in the order of `stream`, whose device must be current; the
// result is that of the launch.

#include <cuda_runtime_api.h>

#include <span>

#include "weft/core/view.hpp"
#include "zero/update/update_cuda.hpp"

namespace weft::detail::cuda::kernels {

/// Finds the arithmetic (f64, or pairs of f32) that is fast on the current device.
cudaError_t find_fitting(Arithmetic& arithmetic);
cudaError_t update(const StepArrays& arrays, const StepFactors& factors, Arithmetic arithmetic,
                   cudaStream_t stream);
/// @param sum of ExactSum::put(), on the device @param gradients of one type
cudaError_t add_squares(std::int64_t* sum, std::span<const ConstView> gradients, cudaStream_t stream);

}  // namespace weft::detail::cuda::kernels
