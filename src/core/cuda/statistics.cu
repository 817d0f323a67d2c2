// Kernels that read gradients and keep little of them: sums of squares, and counts of what is not finite.

#include <algorithm>
#include <type_traits>

#include "core/cuda/elements.cuh"
#include "core/cuda/kernels.hpp"
#include "core/cuda/launch.cuh"

namespace weft::detail::cuda::kernels {
namespace {

/// In the order of the host function, so no multiplication is fused.
template <class T>
__device__ double square(T element) {
  const auto value =
      static_cast<double>(widen<std::conditional_t<std::is_same_v<T, double>, double, float>>(element));
  return __dmul_rn(value, value);
}

constexpr int lanes = 32;
constexpr int partials_a_lane = threads_per_block / lanes;
/// The longest block that a warp sums alone. Longer ones are few: a warp each would leave the device idle.
constexpr std::int64_t longest_of_a_warp = 8192;

/// One warp sums one block of elements: a lane has every 32nd partial sum, so that the first levels of the tree need no other lane.
template <class T>
__global__ void square_sums_by_warp_kernel(double* sums, const T* data, std::int64_t count,
                                           std::int64_t block) {
  constexpr unsigned warps = threads_per_block / lanes;
  const unsigned lane = threadIdx.x % lanes;
  const std::int64_t blocks = (count + block - 1) / block;
  for (std::int64_t b = std::int64_t{blockIdx.x} * warps + threadIdx.x / lanes; b < blocks;
       b += std::int64_t{gridDim.x} * warps) {
    const std::int64_t begin = b * block;
    const std::int64_t end = begin + block < count ? begin + block : count;
    double partial[partials_a_lane] = {};
    const auto add_round = [&](std::int64_t first, auto is_there) {
      T in[partials_a_lane];
#pragma unroll
      for (int k = 0; k < partials_a_lane; ++k)
        in[k] = is_there(first + k * lanes) ? data[first + k * lanes] : T{};
#pragma unroll
      for (int k = 0; k < partials_a_lane; ++k)
        partial[k] = __dadd_rn(partial[k], square(in[k]));  // of no element: + 0
    };
    std::int64_t at = begin;
#pragma unroll 4
    for (; at + threads_per_block <= end; at += threads_per_block)
      add_round(at + lane, [](std::int64_t) { return true; });
    if (at < end) add_round(at + lane, [end](std::int64_t i) { return i < end; });
#pragma unroll
    for (int half = partials_a_lane / 2; half > 0; half /= 2) {
#pragma unroll
      for (int k = 0; k < half; ++k) partial[k] = __dadd_rn(partial[k], partial[k + half]);
    }
    for (unsigned half = lanes / 2; half > 0; half /= 2)
      partial[0] = __dadd_rn(partial[0], __shfl_down_sync(0xffffffffU, partial[0], half));
    if (lane == 0) sums[b] = partial[0];
  }
}

/// One thread block sums one block of elements.
template <class T>
__global__ void square_sums_kernel(double* sums, const T* data, std::int64_t count, std::int64_t block) {
  __shared__ double partial[threads_per_block];
  const std::int64_t blocks = (count + block - 1) / block;
  for (std::int64_t b = blockIdx.x; b < blocks; b += gridDim.x) {
    const std::int64_t begin = b * block;
    const std::int64_t end = begin + block < count ? begin + block : count;
    double sum = 0;
    for (std::int64_t i = begin + threadIdx.x; i < end; i += threads_per_block)
      sum = __dadd_rn(sum, square(data[i]));
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = threads_per_block / 2; half > 0; half /= 2) {
      if (threadIdx.x < half)
        partial[threadIdx.x] = __dadd_rn(partial[threadIdx.x], partial[threadIdx.x + half]);
      __syncthreads();
    }
    if (threadIdx.x == 0) sums[b] = partial[0];  // which it alone writes in the next round
  }
}

template <std::size_t width, class T>
__global__ void count_bad_kernel(unsigned long long* counts, const T* data, std::int64_t vectors,
                                 std::int64_t count) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long nans = 0;
  unsigned long long infinities = 0;
  const auto look_at = [&](T element) {
    const Sum value = widen<Sum>(element);
    nans += isnan(value) ? 1 : 0;
    infinities += isinf(value) ? 1 : 0;
  };
  for (std::int64_t i = thread; i < vectors; i += stride) {
    const auto in = reinterpret_cast<const Vector<T, width>*>(data)[i];
#pragma unroll
    for (std::size_t k = 0; k < width; ++k) look_at(in.at[k]);
  }
  for (std::int64_t i = vectors * static_cast<std::int64_t>(width) + thread; i < count; i += stride)
    look_at(data[i]);
  if (nans > 0) atomicAdd(counts, nans);
  if (infinities > 0) atomicAdd(counts + 1, infinities);
}

}  // namespace

cudaError_t square_sums(View sums, ConstView data, std::int64_t block, cudaStream_t stream) {
  if (data.empty()) return cudaSuccess;
  return of_floating(data.dtype(), [&]<class T>(std::type_identity<T>) {
    if (block <= longest_of_a_warp) {
      return launch(square_sums_by_warp_kernel<T>, blocks_for(sums.count() * lanes), threads_per_block,
                    stream, static_cast<double*>(sums.data()), static_cast<const T*>(data.data()),
                    data.count(), block);
    }
    return launch(square_sums_kernel<T>, static_cast<unsigned>(std::min(sums.count(), most_blocks)),
                  threads_per_block, stream, static_cast<double*>(sums.data()),
                  static_cast<const T*>(data.data()), data.count(), block);
  });
}

cudaError_t count_bad(View counts, ConstView data, cudaStream_t stream) {
  if (data.empty()) return cudaSuccess;
  return of_floating(data.dtype(), [&]<class T>(std::type_identity<T>) {
    constexpr std::size_t width = vector_bytes / sizeof(T);
    const std::int64_t vectors =
        aligned(data.data(), vector_bytes) ? data.count() / static_cast<std::int64_t>(width) : 0;
    return launch(count_bad_kernel<width, T>, blocks_for(vectors > 0 ? vectors : data.count()),
                  threads_per_block, stream, static_cast<unsigned long long*>(counts.data()),
                  static_cast<const T*>(data.data()), vectors, data.count());
  });
}

}  // namespace weft::detail::cuda::kernels
