#include <algorithm>
#include <type_traits>

#include "core/cuda/elements.cuh"
#include "core/cuda/kernels.hpp"
#include "core/cuda/launch.cuh"

namespace weft::detail::cuda::kernels {
namespace {

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
/// By a number of ranks, which is the same for all elements: two steps from the reciprocal give the quotient's own bits (Markstein 1990: the
/// first step's result is within 1 ulp, so its remainder is exact). Where something could underflow or overflow on the way, it divides.
template <>
struct DivideBy<float> {
  float by;
  float reciprocal = 1 / by;
  __device__ float operator()(float value) const {
    const float first = __fmul_rn(value, reciprocal);
    const float second = __fmaf_rn(__fmaf_rn(-by, first, value), reciprocal, first);
    const float third = __fmaf_rn(__fmaf_rn(-by, second, value), reciprocal, second);
    const unsigned exponent = __float_as_uint(value) >> 23U & 0xffU;
    if (exponent - 64 < 128) return third;  // 2^-63 to 2^65
    return value == 0 ? value : quotient(value, by);
  }
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

template <class Sum, std::size_t width, class T>
__global__ void add_kernel(T* to, const T* from, std::int64_t vectors, std::int64_t count) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t v = thread; v < vectors; v += stride) {
    auto sum = reinterpret_cast<Vector<T, width>*>(to)[v];
    const auto in = reinterpret_cast<const Vector<T, width>*>(from)[v];
#pragma unroll
    for (std::size_t k = 0; k < width; ++k)
      sum.at[k] = narrow<T>(widen<Sum>(sum.at[k]) + widen<Sum>(in.at[k]));
    reinterpret_cast<Vector<T, width>*>(to)[v] = sum;
  }
  for (std::int64_t i = vectors * static_cast<std::int64_t>(width) + thread; i < count; i += stride)
    to[i] = narrow<T>(widen<Sum>(to[i]) + widen<Sum>(from[i]));
}

// One launch takes as many pieces as fit into the 4 KiB of a kernel's arguments.
constexpr int pieces_a_launch = 128;
struct Pieces {
  const std::byte* from[pieces_a_launch];
  std::int64_t begin[pieces_a_launch + 1];  // in bytes of `to`
  int count;
};

template <class Word>
__device__ void copy_by(std::byte* out, const std::byte* from, std::int64_t bytes) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  constexpr auto width = static_cast<std::int64_t>(sizeof(Word));
  constexpr std::int64_t ahead =
      std::min<std::int64_t>(vector_bytes / width, 8);  // loads under way: of short words, more
  const std::int64_t words = bytes / width;
  std::int64_t i = thread;
  for (; i + (ahead - 1) * stride < words; i += ahead * stride) {
    Word some[ahead];
#pragma unroll
    for (std::int64_t k = 0; k < ahead; ++k) some[k] = reinterpret_cast<const Word*>(from)[i + k * stride];
#pragma unroll
    for (std::int64_t k = 0; k < ahead; ++k) reinterpret_cast<Word*>(out)[i + k * stride] = some[k];
  }
  for (; i < words; i += stride) reinterpret_cast<Word*>(out)[i] = reinterpret_cast<const Word*>(from)[i];
  for (i = words * width + thread; i < bytes; i += stride) out[i] = from[i];
}

/// Row y of thread blocks copies piece y, by the widest words that both ends are aligned for: a parameter may begin at any element.
__global__ void pack_kernel(std::byte* to, const Pieces pieces) {
  const int piece = static_cast<int>(blockIdx.y);
  const std::byte* from = pieces.from[piece];
  std::byte* out = to + pieces.begin[piece];
  const std::int64_t bytes = pieces.begin[piece + 1] - pieces.begin[piece];
  const auto ends = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(out);
  if (ends % sizeof(uint4) == 0) return copy_by<uint4>(out, from, bytes);
  if (ends % sizeof(std::uint32_t) == 0) return copy_by<std::uint32_t>(out, from, bytes);
  if (ends % sizeof(std::uint16_t) == 0) return copy_by<std::uint16_t>(out, from, bytes);
  copy_by<std::byte>(out, from, bytes);
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
    constexpr std::size_t width = vector_bytes / sizeof(Type);
    const bool whole = aligned(to.data(), vector_bytes) && aligned(from.data(), vector_bytes);
    const std::int64_t vectors = whole ? to.count() / static_cast<std::int64_t>(width) : 0;
    return launch(add_kernel<typename On<T>::Sum, width, Type>, blocks_for(whole ? vectors : to.count()),
                  threads_per_block, stream, static_cast<Type*>(to.data()),
                  static_cast<const Type*>(from.data()), vectors, to.count());
  });
}

cudaError_t cast(View to, ConstView from, cudaStream_t stream) {
  return of_floating(to.dtype(), [&]<class To>(std::type_identity<To>) {
    return of_floating(from.dtype(), [&]<class From>(std::type_identity<From>) {
      constexpr bool both_wide = std::is_same_v<To, double> && std::is_same_v<From, double>;
      using Sum = std::conditional_t<both_wide, double, float>;
      return transform<Sum, To, From>(to.data(), from.data(), to.count(), Keep{}, stream);
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
