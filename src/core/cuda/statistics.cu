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

constexpr unsigned lanes = 32;

/// One level of two trees at once: the lanes whose bit `distance` is 0 go on with x, the others with y.
__device__ double half_of_each(double x, double y, unsigned distance) {
  const bool has_x = (threadIdx.x & distance) == 0;
  return __dadd_rn(has_x ? x : y, __shfl_xor_sync(0xffffffffU, has_x ? y : x, static_cast<int>(distance)));
}

/// The same of small blocks, of `parts` times 32 elements: a warp sums four at a time, whose trees share its lanes, so that they cost 6 exchanges
/// and not 20.
template <class T, int parts>
__global__ void square_sums_by_warps_kernel(double* sums, const T* data, std::int64_t count) {
  constexpr int at_once = 4;
  constexpr std::int64_t block = parts * lanes;
  const unsigned lane = threadIdx.x % lanes;
  const std::int64_t blocks = (count + block - 1) / block;
  const std::int64_t warp = std::int64_t{blockIdx.x} * (threads_per_block / lanes) + threadIdx.x / lanes;
  const std::int64_t stride = std::int64_t{gridDim.x} * (threads_per_block / lanes) * at_once;
  for (std::int64_t first = warp * at_once; first < blocks; first += stride) {
    double sum[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      double part[parts];
#pragma unroll
      for (int p = 0; p < parts; ++p) {
        const std::int64_t i = (first + k) * block + p * lanes + lane;
        part[p] = i < count ? square(data[i]) : 0;
      }
#pragma unroll
      for (int level = parts / 2; level > 0; level /= 2) {
#pragma unroll
        for (int p = 0; p < level; ++p) part[p] = __dadd_rn(part[p], part[p + level]);
      }
      sum[k] = part[0];
    }
    double mine = half_of_each(half_of_each(sum[0], sum[1], 16), half_of_each(sum[2], sum[3], 16), 8);
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2)
      mine = __dadd_rn(mine, __shfl_xor_sync(0xffffffffU, mine, distance));
    const std::int64_t b = first + ((lane & 16U) != 0 ? 1 : 0) + ((lane & 8U) != 0 ? 2 : 0);
    if (lane % 8 == 0 && b < blocks) sums[b] = mine;
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
  for (std::int64_t i = vectors * static_cast<std::int64_t>(width) + thread; i < count; i += stride) look_at(data[i]);
  if (nans > 0) atomicAdd(counts, nans);
  if (infinities > 0) atomicAdd(counts + 1, infinities);
}

}  // namespace

cudaError_t square_sums(View sums, ConstView data, std::int64_t block, cudaStream_t stream) {
  if (data.empty()) return cudaSuccess;
  return dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      return cudaErrorInvalidValue;  // core/memory/elementwise.cpp refused it before
    } else {
      using Type = typename On<T>::Type;
      auto* const to = static_cast<double*>(sums.data());
      const auto* const from = static_cast<const Type*>(data.data());
      const auto by_warps = [&]<int parts>(std::integral_constant<int, parts>) {
        return launch(square_sums_by_warps_kernel<Type, parts>, blocks_for(sums.count() * lanes / 4),
                      threads_per_block, stream, to, from, data.count());
      };
      switch (block) {
        case 1 * lanes:
          return by_warps(std::integral_constant<int, 1>{});
        case 2 * lanes:
          return by_warps(std::integral_constant<int, 2>{});
        case 4 * lanes:
          return by_warps(std::integral_constant<int, 4>{});
        case 8 * lanes:
          return by_warps(std::integral_constant<int, 8>{});
        default:
          return launch(square_sums_kernel<Type>, static_cast<unsigned>(std::min(sums.count(), most_blocks)),
                        threads_per_block, stream, to, from, data.count(), block);
      }
    }
  });
}

cudaError_t count_bad(View counts, ConstView data, cudaStream_t stream) {
  if (data.empty()) return cudaSuccess;
  return dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      return cudaErrorInvalidValue;  // core/memory/elementwise.cpp refused it before
    } else {
      using Type = typename On<T>::Type;
      constexpr std::size_t width = vector_bytes / sizeof(Type);
      const std::int64_t vectors =
          aligned(data.data(), vector_bytes) ? data.count() / static_cast<std::int64_t>(width) : 0;
      return launch(count_bad_kernel<width, Type>, blocks_for(vectors > 0 ? vectors : data.count()),
                    threads_per_block, stream, static_cast<unsigned long long*>(counts.data()),
                    static_cast<const Type*>(data.data()), vectors, data.count());
    }
  });
}

}  // namespace weft::detail::cuda::kernels
