#pragma once
// The kernels beside the functions of on_host in compression/low_rank_jobs.hpp. A list is as many launches as
// it has times 30 jobs (they travel as a kernel's arguments, which no memory has to outlive). All run in the
// order of `stream`, on its device, which must be current; they return what the launch returned.
//
// Products over a row, what orthonormal vectors are made of, and all elements of results are computed in the
// order of the twins, never fused: the same bits. A sum over rows is split, for it would leave a device idle:
// into blocks of `rows_a_sum` rows, of which each of 8 warps takes every eighth row in order; warps are added
// in order, and then blocks. So it depends on the matrix alone, and is within rounding of the twin's:
// 2 * rows * 2^-24 of the sum of the products' magnitudes, as any order is.

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
