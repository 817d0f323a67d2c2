#pragma once
// Launches the kernels of block_coding.cu in the order of `stream`, whose device must be current. The result
// is that of the launch.

#include <cuda_runtime_api.h>

#include "compression/codecs/cuda/block_coding.hpp"

namespace weft::detail::cuda::kernels {

cudaError_t encode_parts(const BlockCoding& coding, std::byte* out, cudaStream_t stream);
cudaError_t sum_mine(const BlockCoding& coding, const std::byte* in, std::byte* mean, float* mine,
                     std::int32_t* bad, cudaStream_t stream);
cudaError_t decode_means(const BlockCoding& coding, const std::byte* means, cudaStream_t stream);
cudaError_t check_coded(ConstView gradient, std::int32_t* bad, cudaStream_t stream);
cudaError_t report(const std::int32_t* any, std::int32_t* bad, cudaStream_t stream);

}  // namespace weft::detail::cuda::kernels
