#pragma once
// Launches of the element-wise kernels, which give the same bits as the host functions of
// core/memory/elementwise.hpp. Each works in the order of `stream` on its device, which must be current, and
// returns what the launch returned.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "weft/core/view.hpp"

namespace weft::detail::cuda::kernels {

cudaError_t divide(View data, std::int64_t divisor, cudaStream_t stream);
cudaError_t scale(View data, double factor, cudaStream_t stream);
cudaError_t add(View to, ConstView from, cudaStream_t stream);
cudaError_t square_sums(View sums, ConstView data, std::int64_t block, cudaStream_t stream);
cudaError_t count_bad(View counts, ConstView data, cudaStream_t stream);
cudaError_t cast(View to, ConstView from, cudaStream_t stream);
cudaError_t fill(View data, double value, cudaStream_t stream);
cudaError_t pack(View flat, std::span<const ConstView> pieces, cudaStream_t stream);

}  // namespace weft::detail::cuda::kernels
