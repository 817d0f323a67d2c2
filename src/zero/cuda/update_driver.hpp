#pragma once
// The kernel of update.cu behind cuda::UpdateKernels. Only in builds with CUDA.

#include "zero/cuda/update_kernels.hpp"

namespace weft::detail::cuda {

std::shared_ptr<UpdateKernels> make_update_driver();

}  // namespace weft::detail::cuda
