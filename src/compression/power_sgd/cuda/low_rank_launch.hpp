#pragma once
// The kernels, one for each function of on_host in compression/power_sgd/low_rank_jobs.hpp. A list is one
// launch for every 30 jobs: jobs travel as kernel arguments, so no memory has to outlive the call. All run in
// the order of `stream`, on its device, which must be current, and return what the launch returned.
//
// Products over a row, orthonormal vectors, and all elements of results are computed in the order of the
// host, and never fused: they have the host's bits. A sum over rows in that order would leave the device
// idle, so it is split into blocks of `rows_a_sum` rows. Each of 8 warps adds every eighth row of a block in
// order; then warps are added in order, and then blocks. The result depends on the matrix alone. It is within
// rounding of the host's, as a sum in any order is: 2 * rows * 2^-24 of the sum of the products' magnitudes.

#include <cuda_runtime_api.h>

#include <span>

#include "compression/power_sgd/low_rank_jobs.hpp"

namespace weft::detail::cuda::kernels {

cudaError_t project(std::span<const LowRankJob> jobs, cudaStream_t stream);
cudaError_t project_transposed(std::span<const LowRankJob> jobs, cudaStream_t stream);
cudaError_t rebuild(std::span<const LowRankPart> parts, cudaStream_t stream);
cudaError_t keep_residuals(std::span<const LowRankPart> parts, cudaStream_t stream);
cudaError_t expand(std::span<const LowRankPart> parts, cudaStream_t stream);

cudaError_t check_finite(std::span<const LowRankJob> jobs, std::int32_t* bad, cudaStream_t stream);
cudaError_t check_finite(ConstView sums, std::int32_t* bad, cudaStream_t stream);
cudaError_t check_counts(ConstView counts, std::int32_t* bad, cudaStream_t stream);
cudaError_t orthonormalize(std::span<const LowRankJob> jobs, cudaStream_t stream);
cudaError_t start_next(std::span<const LowRankJob> jobs, cudaStream_t stream);
cudaError_t start_anew(std::span<const LowRankJob> jobs, cudaStream_t stream);

}  // namespace weft::detail::cuda::kernels
