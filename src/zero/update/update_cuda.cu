// The CUDA kernel of an optimizer's step. A thread takes four elements at a time if all arrays are aligned
// for vector loads, otherwise one; threads stride over the arrays. It reads each value once and writes it once.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "core/cuda/launch.cuh"
#include "zero/update/float_pair.cuh"
#include "zero/update/update_launch.hpp"

#define WEFT_LANES cuda_lanes
#define WEFT_LANES_ATTR __device__
#include "zero/update/update_rule-inl.hpp"

namespace weft::detail::cuda::kernels {
namespace {

constexpr int threads_a_block = 256;
constexpr std::int64_t most_blocks = 2112;  // 16 on each of 132 multiprocessors
constexpr int together = 4;

/// IEEE arithmetic whatever flags nvcc gets: the bits must be those of the host.
struct ThreadLane {
  using Wide = double;
  using Narrow = float;
  using Constant = double;
  using NarrowConstant = float;

  static __device__ double all(double value) { return value; }
  static __device__ float narrow_all(double value) { return __double2float_rn(value); }
  static __device__ double wide(float value) { return static_cast<double>(value); }
  static __device__ float narrow(double value) { return __double2float_rn(value); }
  static __device__ double product(double a, double b) { return __dmul_rn(a, b); }
  static __device__ double plus_product(double sum, double a, double b) { return __fma_rn(a, b, sum); }
  static __device__ double minus_product(double sum, double a, double b) { return __fma_rn(-a, b, sum); }
  static __device__ float sum(float a, float b) { return __fadd_rn(a, b); }
  static __device__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
  static __device__ float root(float value) { return __fsqrt_rn(value); }
};

template <class T, int width>
struct alignas(sizeof(T) * width) Vector {
  T at[width];
};

template <int width, class T>
__device__ Vector<T, width> load(const void* from, std::int64_t i) {
  return *reinterpret_cast<const Vector<T, width>*>(static_cast<const T*>(from) + i);
}
template <int width, class T>
__device__ void store(const Vector<T, width>& value, void* to, std::int64_t i) {
  *reinterpret_cast<Vector<T, width>*>(static_cast<T*>(to) + i) = value;
}

__device__ float widened(__half value) {
  return __half2float(value);
}
__device__ float widened(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ void set(__half& to, float value) {
  to = __float2half_rn(value);
}
__device__ void set(__nv_bfloat16& to, float value) {
  to = __float2bfloat16_rn(value);
}

template <int width, class T>
__device__ Vector<float, width> loaded_as(const void* from, std::int64_t i) {
  const auto narrow = load<width, T>(from, i);
  Vector<float, width> result;
#pragma unroll
  for (int k = 0; k < width; ++k) result.at[k] = widened(narrow.at[k]);
  return result;
}

/// All threads take the same branch.
template <int width>
__device__ Vector<float, width> gradient_at(const StepArrays& arrays, std::int64_t i) {
  if (arrays.gradient_type == DataType::f32) return load<width, float>(arrays.gradient, i);
  if (arrays.gradient_type == DataType::bf16) return loaded_as<width, __nv_bfloat16>(arrays.gradient, i);
  return loaded_as<width, __half>(arrays.gradient, i);
}

template <Form form, int width>
__device__ Vector<float, width> master_at(const StepArrays& arrays, std::int64_t i) {
  if constexpr (form == Form::f32) {
    return load<width, float>(arrays.parameters, i);
  } else if constexpr (form == Form::split) {
    const auto high = load<width, std::uint16_t>(arrays.parameters, i);
    const auto low = load<width, std::int16_t>(arrays.master, i);
    Vector<float, width> result;
#pragma unroll
    for (int k = 0; k < width; ++k) result.at[k] = joined({high.at[k], low.at[k]});
    return result;
  } else {
    return load<width, float>(arrays.master, i);
  }
}

template <Form form, int width>
__device__ void set_parameters(const StepArrays& arrays, std::int64_t i, const Vector<float, width>& value) {
  if constexpr (form == Form::f32) {
    store(value, arrays.parameters, i);
  } else if constexpr (form == Form::split) {
    Vector<std::uint16_t, width> high;
    Vector<std::int16_t, width> low;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const SplitFloat halves = split(value.at[k]);
      high.at[k] = halves.high;
      low.at[k] = halves.low;
    }
    store(high, arrays.parameters, i);
    store(low, arrays.master, i);
  } else {
    Vector<std::conditional_t<form == Form::f16, __half, __nv_bfloat16>, width> narrow;
#pragma unroll
    for (int k = 0; k < width; ++k) set(narrow.at[k], value.at[k]);
    store(value, arrays.master, i);
    store(narrow, arrays.parameters, i);
  }
}

/// An element in f64. @param p, m, v @returns the parameter
template <class Rule>
struct InDoubles {
  Rule rule;
  __device__ explicit InDoubles(const StepFactors& factors) : rule(factors) {}
  __device__ float operator()(float g, float p, float& m, float& v) const {
    return rule(ThreadLane::wide(g), ThreadLane::wide(p), ThreadLane::wide(m), ThreadLane::wide(v), m, v);
  }
};

/// The same bits from pairs of f32, and from f64 where those are not sure.
template <class Pairs, class Doubles>
struct InPairs {
  Pairs pairs;
  const StepFactors& factors;
  __device__ explicit InPairs(const StepFactors& of) : pairs(of), factors(of) {}
  __device__ float operator()(float g, float p, float& m, float& v) const {
    float new_m = m;
    float new_v = v;
    const float result =
        pairs(PairLane::wide(g), PairLane::wide(p), PairLane::wide(m), PairLane::wide(v), new_m, new_v);
    if (isnan(result) || isnan(new_v)) return Doubles(factors)(g, p, m, v);
    if (isnan(new_m)) {  // often, and cheap: nothing but the moment is computed here
      float unused = v;
      static_cast<void>(Doubles(factors)(g, p, m, unused));
    } else {
      m = new_m;
    }
    v = new_v;
    return result;
  }
};

template <Form form, int width, int moments, class Rule>
__device__ void step(const StepArrays& arrays, const Rule& rule, std::int64_t i) {
  const auto g = gradient_at<width>(arrays, i);
  auto p = master_at<form, width>(arrays, i);
  Vector<float, width> m{};
  Vector<float, width> v{};
  if constexpr (moments > 0) m = load<width, float>(arrays.first, i);
  if constexpr (moments > 1) v = load<width, float>(arrays.second, i);
#pragma unroll
  for (int k = 0; k < width; ++k) p.at[k] = rule(g.at[k], p.at[k], m.at[k], v.at[k]);
  if constexpr (moments > 0) store(m, arrays.first, i);
  if constexpr (moments > 1) store(v, arrays.second, i);
  set_parameters<form, width>(arrays, i, p);
}

/// `vectors` times four elements, then the remaining elements one by one.
template <Form form, int moments, class Rule>
__global__ void __launch_bounds__(threads_a_block)
    update_kernel(const __grid_constant__ StepArrays arrays, const __grid_constant__ StepFactors factors,
                  std::int64_t vectors) {
  const Rule rule(factors);
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = thread; i < vectors; i += stride)
    step<form, together, moments>(arrays, rule, together * i);
  for (std::int64_t i = together * vectors + thread; i < arrays.count; i += stride)
    step<form, 1, moments>(arrays, rule, i);
}

bool aligned(const void* address) {  // null counts as aligned
  return reinterpret_cast<std::uintptr_t>(address) % (sizeof(float) * together) == 0;
}

template <Form form, class Doubles, class Pairs>
cudaError_t start(const StepArrays& arrays, const StepFactors& factors, Arithmetic arithmetic,
                  cudaStream_t stream) {
  const bool whole = aligned(arrays.gradient) && aligned(arrays.parameters) && aligned(arrays.master) &&
                     aligned(arrays.first) && aligned(arrays.second);
  const std::int64_t vectors = whole ? arrays.count / together : 0;
  const std::int64_t threads = std::max(vectors, arrays.count - together * vectors);
  const std::int64_t blocks = std::min((threads + threads_a_block - 1) / threads_a_block, most_blocks);
  constexpr int moments = Doubles::moments;
  const auto run = [&](auto kernel) {
    return cuda::launch(kernel, static_cast<unsigned>(blocks), threads_a_block, stream, arrays, factors,
                        vectors);
  };
  if (arithmetic == Arithmetic::f64) return run(update_kernel<form, moments, InDoubles<Doubles>>);
  return run(update_kernel<form, moments, InPairs<Pairs, InDoubles<Doubles>>>);
}

template <Form form>
cudaError_t launch_as(const StepArrays& arrays, const StepFactors& factors, Arithmetic arithmetic,
                      cudaStream_t stream) {
  using namespace cuda_lanes;
  if (factors.rule == UpdateRule::adamw)
    return start<form, AdaptiveRule<ThreadLane, false>, AdaptiveRule<PairLane, false>>(arrays, factors,
                                                                                       arithmetic, stream);
  if (factors.rule == UpdateRule::adam)
    return start<form, AdaptiveRule<ThreadLane, true>, AdaptiveRule<PairLane, true>>(arrays, factors,
                                                                                     arithmetic, stream);
  if (factors.moments() == 1)
    return start<form, DescentRule<ThreadLane, true>, DescentRule<PairLane, true>>(arrays, factors,
                                                                                   arithmetic, stream);
  return start<form, DescentRule<ThreadLane, false>, DescentRule<PairLane, false>>(arrays, factors,
                                                                                   arithmetic, stream);
}

}  // namespace

cudaError_t find_fitting(Arithmetic& arithmetic) {
  constexpr int slow = 16;
  int device = 0;
  int ratio = 0;
  cudaError_t code = cudaGetDevice(&device);
  if (code == cudaSuccess)
    code = cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, device);
  arithmetic = ratio < slow ? Arithmetic::f64 : Arithmetic::pairs;
  return code;
}

cudaError_t update(const StepArrays& arrays, const StepFactors& factors, Arithmetic arithmetic,
                   cudaStream_t stream) {
  if (arrays.count == 0) return cudaSuccess;
  switch (arrays.form) {
    case Form::f32:
      return launch_as<Form::f32>(arrays, factors, arithmetic, stream);
    case Form::bf16:
      return launch_as<Form::bf16>(arrays, factors, arithmetic, stream);
    case Form::f16:
      return launch_as<Form::f16>(arrays, factors, arithmetic, stream);
    case Form::split:
      return launch_as<Form::split>(arrays, factors, arithmetic, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace weft::detail::cuda::kernels
