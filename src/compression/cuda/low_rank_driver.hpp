#pragma once
// The kernels of orthonormal.cu, products.cu and rebuild.cu behind cuda::LowRankKernels. Only in builds with
// CUDA.

#include "compression/cuda/low_rank_kernels.hpp"

namespace weft::detail::cuda {

std::shared_ptr<LowRankKernels> make_low_rank_driver();

}  // namespace weft::detail::cuda
