#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "core/elementwise.hpp"

namespace weft::detail {
namespace {

constexpr int threads_per_block = 256;
constexpr std::int64_t most_blocks = 1024;  // enough to fill a device; each thread then strides on

// IEEE division, whatever -use_fast_math says: the host twin must be met bit by bit.
__device__ float quotient(float value, float by) {
  return __fdiv_rn(value, by);
}
__device__ double quotient(double value, double by) {
  return __ddiv_rn(value, by);
}
__device__ __half quotient(__half value, float by) {
  return __float2half_rn(__fdiv_rn(__half2float(value), by));
}
__device__ __nv_bfloat16 quotient(__nv_bfloat16 value, float by) {
  return __float2bfloat16_rn(__fdiv_rn(__bfloat162float(value), by));
}

template <class T, class Divisor>
__global__ void divide_kernel(T* data, std::int64_t count, Divisor by) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    data[i] = quotient(data[i], by);
  }
}

template <class T, class Divisor>
void launch(View data, Divisor by, cudaStream_t stream) {
  const std::int64_t blocks =
      std::min(most_blocks, (data.count() + threads_per_block - 1) / threads_per_block);
  if (blocks == 0) return;
  divide_kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(static_cast<T*>(data.data()),
                                                                                 data.count(), by);
  if (const cudaError_t code = cudaGetLastError(); code != cudaSuccess) {
    throw Error(ErrorKind::system,
                text("cannot launch divide on ", data.device(), ": ", cudaGetErrorString(code)));
  }
}

}  // namespace

void divide(View data, std::int64_t divisor, cudaStream_t stream) {
  switch (data.dtype()) {
    case DataType::f32:
      return launch<float>(data, static_cast<float>(divisor), stream);
    case DataType::f64:
      return launch<double>(data, static_cast<double>(divisor), stream);
    case DataType::f16:
      return launch<__half>(data, static_cast<float>(divisor), stream);
    case DataType::bf16:
      return launch<__nv_bfloat16>(data, static_cast<float>(divisor), stream);
    case DataType::i32:
    case DataType::i64:
    case DataType::u8:
      break;
  }
  throw Error(ErrorKind::usage, text("divide on ", data.dtype(), " data of ", data.device()),
              "gradients are floating-point");
}

}  // namespace weft::detail
