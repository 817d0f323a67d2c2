#pragma once
// What the element-wise kernels have in common: types, vectors, and how many threads there are.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "weft/core/dtype.hpp"

namespace weft::detail::cuda::kernels {

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

template <class T, std::size_t width>
struct alignas(sizeof(T) * width) Vector {
  T at[width];
};

/// Calls function(std::type_identity<T>) with CUDA's type for `dtype`. Integers were refused before (core/memory/elementwise.cpp).
template <class Function>
cudaError_t of_floating(DataType dtype, Function function) {
  return dispatch(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      return cudaErrorInvalidValue;
    } else {
      return function(std::type_identity<typename On<T>::Type>());
    }
  });
}

inline unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((threads + threads_per_block - 1) / threads_per_block, 1, most_blocks));
}

inline bool aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

}  // namespace weft::detail::cuda::kernels
