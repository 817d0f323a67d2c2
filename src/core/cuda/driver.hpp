#pragma once
// CUDA's own runtime library behind cuda::Runtime. Only in builds with CUDA.

#include "core/cuda/runtime.hpp"

namespace weft::detail::cuda {

std::shared_ptr<Runtime> make_driver();

}  // namespace weft::detail::cuda
