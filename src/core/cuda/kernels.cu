#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "core/cuda/kernels.hpp"
#include "core/cuda/launch.cuh"

namespace weft::detail::cuda::kernels {
namespace {

constexpr int threads_per_block = 256;
constexpr std::int64_t most_blocks = 2112;  // 16 on each of 132 multiprocessors; threads then stride on
constexpr std::size_t vector_bytes = 16;    // the widest load there is

// CUDA's types for ours, and the types that arithmetic is done in.
template <class T>
struct On {
  using Type = T;
  using Sum = Accumulate<T>;
};
template <>
struct On<Half> {
  using Type = __half;
  using Sum = float;
};
template <>
struct On<BFloat16> {
  using Type = __nv_bfloat16;
  using Sum = float;
};

template <class Sum, class T>
__device__ Sum widen(T value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return static_cast<Sum>(value);
  }
}

template <class T, class Sum>
__device__ T narrow(Sum value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// IEEE arithmetic even under -use_fast_math, and never fused: the host functions must give the same bits.
__device__ float quotient(float value, float by) {
  return __fdiv_rn(value, by);
}
__device__ double quotient(double value, double by) {
  return __ddiv_rn(value, by);
}
template <class Integer>
__device__ Integer quotient(Integer value, Integer by) {
  return value / by;
}

template <class Sum>
struct DivideBy {
  Sum by;
  __device__ Sum operator()(Sum value) const { return quotient(value, by); }
};
template <class Sum>
struct MultiplyBy {
  Sum by;
  __device__ Sum operator()(Sum value) const { return value * by; }
};
struct Keep {
  template <class Sum>
  __device__ Sum operator()(Sum value) const {
    return value;
  }
};

template <class T, std::size_t width>
struct alignas(sizeof(T) * width) Vector {
  T at[width];
};

/// to[i] = function(from[i]). A thread takes a vector of at most 16 bytes at a time; elements after the last
/// vector are taken one by one.
template <class Sum, std::size_t width, class To, class From, class Function>
__global__ void transform_kernel(To* to, const From* from, std::int64_t vectors, std::int64_t count,
                                 Function function) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = thread; i < vectors; i += stride) {
    const auto in = reinterpret_cast<const Vector<From, width>*>(from)[i];
    Vector<To, width> out;
#pragma unroll
    for (std::size_t k = 0; k < width; ++k) out.at[k] = narrow<To>(function(widen<Sum>(in.at[k])));
    reinterpret_cast<Vector<To, width>*>(to)[i] = out;
  }
  for (std::int64_t i = vectors * static_cast<std::int64_t>(width) + thread; i < count; i += stride) {
    to[i] = narrow<To>(function(widen<Sum>(from[i])));
  }
}

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((threads + threads_per_block - 1) / threads_per_block, 1, most_blocks));
}

bool aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

template <class Sum, class To, class From, class Function>
cudaError_t transform(void* to, const void* from, std::int64_t count, Function function,
                      cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  constexpr std::size_t width = vector_bytes / std::max(sizeof(To), sizeof(From));
  const bool whole = aligned(to, width * sizeof(To)) && aligned(from, width * sizeof(From));
  const std::int64_t vectors = whole ? count / static_cast<std::int64_t>(width) : 0;
  const auto threads = std::max(vectors, count - vectors * static_cast<std::int64_t>(width));
  return launch(transform_kernel<Sum, width, To, From, Function>, blocks_for(threads), threads_per_block,
                stream, static_cast<To*>(to), static_cast<const From*>(from), vectors, count, function);
}

template <std::size_t width, class T>
__global__ void fill_kernel(T* data, std::int64_t vectors, std::int64_t count, T value) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  Vector<T, width> values;
#pragma unroll
  for (std::size_t k = 0; k < width; ++k) values.at[k] = value;
  for (std::int64_t i = thread; i < vectors; i += stride)
    reinterpret_cast<Vector<T, width>*>(data)[i] = values;
  for (std::int64_t i = vectors * static_cast<std::int64_t>(width) + thread; i < count; i += stride)
    data[i] = value;
}

template <class Sum, class T>
__global__ void add_kernel(T* to, const T* from, std::int64_t count) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = narrow<T>(widen<Sum>(to[i]) + widen<Sum>(from[i]));
}

/// One thread block sums one block of elements, in the order of the host function, so no multiplication is
/// fused.
template <class T>
__global__ void square_sums_kernel(double* sums, const T* data, std::int64_t count, std::int64_t block) {
  __shared__ double partial[threads_per_block];
  const std::int64_t blocks = (count + block - 1) / block;
  for (std::int64_t b = blockIdx.x; b < blocks; b += gridDim.x) {
    const std::int64_t begin = b * block;
    const std::int64_t end = begin + block < count ? begin + block : count;
    double sum = 0;
    for (std::int64_t i = begin + threadIdx.x; i < end; i += threads_per_block) {
      const auto value =
          static_cast<double>(widen<std::conditional_t<std::is_same_v<T, double>, double, float>>(data[i]));
      sum = __dadd_rn(sum, __dmul_rn(value, value));
    }
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

template <class T>
__global__ void count_bad_kernel(unsigned long long* counts, const T* data, std::int64_t count) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  unsigned long long nans = 0;
  unsigned long long infinities = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Sum value = widen<Sum>(data[i]);
    nans += isnan(value) ? 1 : 0;
    infinities += isinf(value) ? 1 : 0;
  }
  if (nans > 0) atomicAdd(counts, nans);
  if (infinities > 0) atomicAdd(counts + 1, infinities);
}

// One launch takes as many pieces as fit into the 4 KiB of a kernel's arguments.
constexpr int pieces_a_launch = 128;
struct Pieces {
  const std::byte* from[pieces_a_launch];
  std::int64_t begin[pieces_a_launch + 1];  // in bytes of `to`
  int count;
};

/// Row y of thread blocks copies piece y: 16 bytes a thread where both ends are aligned, else byte by byte.
__global__ void pack_kernel(std::byte* to, const Pieces pieces) {
  const int piece = static_cast<int>(blockIdx.y);
  const std::byte* from = pieces.from[piece];
  std::byte* out = to + pieces.begin[piece];
  const std::int64_t bytes = pieces.begin[piece + 1] - pieces.begin[piece];
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool whole =
      (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(out)) % vector_bytes == 0;
  const std::int64_t vectors = whole ? bytes / static_cast<std::int64_t>(vector_bytes) : 0;
  for (std::int64_t i = thread; i < vectors; i += stride)
    reinterpret_cast<uint4*>(out)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (std::int64_t i = vectors * static_cast<std::int64_t>(vector_bytes) + thread; i < bytes; i += stride)
    out[i] = from[i];
}

}  // namespace

cudaError_t divide(View data, std::int64_t divisor, cudaStream_t stream) {
  return dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    using Sum = typename On<T>::Sum;
    using Type = typename On<T>::Type;
    return transform<Sum, Type, Type>(data.data(), data.data(), data.count(),
                                      DivideBy<Sum>{static_cast<Sum>(divisor)}, stream);
  });
}

cudaError_t scale(View data, double factor, cudaStream_t stream) {
  return dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    using Sum = typename On<T>::Sum;
    using Type = typename On<T>::Type;
    return transform<Sum, Type, Type>(data.data(), data.data(), data.count(),
                                      MultiplyBy<Sum>{static_cast<Sum>(factor)}, stream);
  });
}

cudaError_t add(View to, ConstView from, cudaStream_t stream) {
  if (to.empty()) return cudaSuccess;
  return dispatch(to.dtype(), [&]<class T>(std::type_identity<T>) {
    using Type = typename On<T>::Type;
    return launch(add_kernel<typename On<T>::Sum, Type>, blocks_for(to.count()), threads_per_block, stream,
                  static_cast<Type*>(to.data()), static_cast<const Type*>(from.data()), to.count());
  });
}

cudaError_t square_sums(View sums, ConstView data, std::int64_t block, cudaStream_t stream) {
  if (data.empty()) return cudaSuccess;
  return dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      return cudaErrorInvalidValue;  // core/memory/elementwise.cpp refused it before
    } else {
      using Type = typename On<T>::Type;
      const auto grid = static_cast<unsigned>(std::min(sums.count(), most_blocks));
      return launch(square_sums_kernel<Type>, grid, threads_per_block, stream,
                    static_cast<double*>(sums.data()), static_cast<const Type*>(data.data()), data.count(),
                    block);
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
      return launch(count_bad_kernel<Type>, blocks_for(data.count()), threads_per_block, stream,
                    static_cast<unsigned long long*>(counts.data()), static_cast<const Type*>(data.data()),
                    data.count());
    }
  });
}

cudaError_t cast(View to, ConstView from, cudaStream_t stream) {
  return dispatch(to.dtype(), [&]<class To>(std::type_identity<To>) {
    return dispatch(from.dtype(), [&]<class From>(std::type_identity<From>) {
      if constexpr (std::is_integral_v<To> || std::is_integral_v<From>) {
        return cudaErrorInvalidValue;  // core/memory/elementwise.cpp refused it before
      } else {
        constexpr bool both_wide = std::is_same_v<To, double> && std::is_same_v<From, double>;
        using Sum = std::conditional_t<both_wide, double, float>;
        return transform<Sum, typename On<To>::Type, typename On<From>::Type>(to.data(), from.data(),
                                                                              to.count(), Keep{}, stream);
      }
    });
  });
}

cudaError_t fill(View data, double value, cudaStream_t stream) {
  if (data.empty()) return cudaSuccess;
  return dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    using Type = typename On<T>::Type;
    const T host = static_cast<T>(static_cast<Accumulate<T>>(value));
    constexpr std::size_t width = vector_bytes / sizeof(Type);
    const bool whole = aligned(data.data(), vector_bytes);
    const std::int64_t vectors = whole ? data.count() / static_cast<std::int64_t>(width) : 0;
    return launch(fill_kernel<width, Type>, blocks_for(whole ? vectors : data.count()), threads_per_block,
                  stream, static_cast<Type*>(data.data()), vectors, data.count(), std::bit_cast<Type>(host));
  });
}

cudaError_t pack(View flat, std::span<const ConstView> pieces, cudaStream_t stream) {
  std::byte* to = flat.bytes();
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min<std::size_t>(pieces.size(), pieces_a_launch));
    pieces = pieces.subspan(some.size());
    Pieces table{};
    std::int64_t longest = 0;
    for (const ConstView& piece : some) {
      const auto bytes = static_cast<std::int64_t>(piece.size_bytes());
      table.from[table.count] = piece.bytes();
      table.begin[table.count + 1] = table.begin[table.count] + bytes;
      longest = std::max(longest, bytes);
      ++table.count;
    }
    const dim3 grid(blocks_for(longest / static_cast<std::int64_t>(vector_bytes) + 1),
                    static_cast<unsigned>(table.count));
    const cudaError_t code = launch(pack_kernel, grid, threads_per_block, stream, to, table);
    if (code != cudaSuccess) return code;
    to += table.begin[table.count];
  }
  return cudaSuccess;
}

}  // namespace weft::detail::cuda::kernels
