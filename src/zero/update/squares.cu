// Adds the squares of gradients to an exact sum (zero/optimizer/exact_sum.hpp) that lies on the device: one read of the gradients, nothing written
// but the sum, 184 bytes.
//
//   1. A line of 128 bytes lies in 8 lanes, 16 bytes each. A warp takes 32 lines at a time, 8 loads a lane.
//   2. The tree of a line (halves are added, as add_squares() of gradient_norm.cpp does) takes three levels across lanes and the others within one.
//      At each of the first three a lane goes on with half of its lines and gives the other half away: 28 exchanges for 32 lines, and then each
//      lane has one line.
//   3. A thread adds its line to places of its own, in shared memory; integers, so that no order matters.
//   4. A block adds up its threads' places, carries, and adds them to the sum with 23 atomics.

#include "core/cuda/elements.cuh"
#include "core/cuda/launch.cuh"
#include "zero/optimizer/exact_sum.hpp"
#include "zero/update/update_launch.hpp"

namespace weft::detail::cuda::kernels {
namespace {

constexpr unsigned lanes = 32;
constexpr int loads = 8;
constexpr std::int64_t bytes_at_once = std::int64_t{lanes} * loads * vector_bytes;
constexpr unsigned places = ExactSum::places_count;

/// Squares of the 16 bytes of a line that a lane has, or their sums with those of other lanes.
template <std::size_t width>
struct Squares {
  double at[width];
};

template <class T, std::size_t width>
__device__ Vector<T, width> load(const T* data, std::int64_t begin, std::int64_t count) {
  if (begin + static_cast<std::int64_t>(width) <= count)
    return *reinterpret_cast<const Vector<T, width>*>(data + begin);
  Vector<T, width> rest{};  // zero beyond the end
#pragma unroll
  for (std::size_t k = 0; k < width; ++k) {
    if (begin + static_cast<std::int64_t>(k) < count) rest.at[k] = data[begin + static_cast<std::int64_t>(k)];
  }
  return rest;
}

/// In the order of the host function, so no multiplication is fused.
template <class T, std::size_t width>
__device__ Squares<width> squares_of(const Vector<T, width>& values) {
  Squares<width> result;
#pragma unroll
  for (std::size_t k = 0; k < width; ++k) {
    const auto value = static_cast<double>(widen<float>(values.at[k]));
    result.at[k] = __dmul_rn(value, value);
  }
  return result;
}

/// One level of two lines' trees: the lanes whose bit `distance` is 0 go on with x, the others with y.
template <std::size_t width>
__device__ Squares<width> half_of_each(const Squares<width>& x, const Squares<width>& y, unsigned distance) {
  const bool has_x = (threadIdx.x & distance) == 0;
  Squares<width> result;
#pragma unroll
  for (std::size_t k = 0; k < width; ++k) {
    const double given = __shfl_xor_sync(0xffffffffU, has_x ? y.at[k] : x.at[k], static_cast<int>(distance));
    result.at[k] = __dadd_rn(has_x ? x.at[k] : y.at[k], given);
  }
  return result;
}

/// The first three levels of the lines in values[0] to values[2 * distance - 1].
template <unsigned distance, class T, std::size_t width>
__device__ Squares<width> one_line_a_lane(const Vector<T, width>* values) {
  if constexpr (distance == 0) {
    return squares_of(values[0]);
  } else {
    return half_of_each(one_line_a_lane<distance / 2>(values), one_line_a_lane<distance / 2>(values + distance),
                        lanes / 8 / distance);
  }
}

template <std::size_t width, class T>
__global__ void __launch_bounds__(threads_per_block, sizeof(T) == 4 ? 3 : 2)
    add_squares_kernel(unsigned long long* sum, const T* data, std::int64_t count) {
  __shared__ unsigned long long mine[places][threads_per_block];
  __shared__ unsigned long long total[places];
#pragma unroll
  for (unsigned p = 0; p < places; ++p) mine[p][threadIdx.x] = 0;
  unsigned long long bad = 0;
  const unsigned lane = threadIdx.x % lanes;
  const unsigned warp = threadIdx.x / lanes;
  constexpr unsigned warps = threads_per_block / lanes;
  constexpr std::int64_t at_once = bytes_at_once / sizeof(T);
  const std::int64_t stride = std::int64_t{gridDim.x} * warps * at_once;
  for (std::int64_t begin = (std::int64_t{blockIdx.x} * warps + warp) * at_once; begin < count; begin += stride) {
    Vector<T, width> values[loads];
#pragma unroll
    for (int k = 0; k < loads; ++k)
      values[k] = load<T, width>(data, begin + static_cast<std::int64_t>((k * lanes + lane) * width), count);
    Squares<width> line = one_line_a_lane<loads / 2>(values);
#pragma unroll
    for (std::size_t half = width / 2; half > 0; half /= 2) {
#pragma unroll
      for (std::size_t k = 0; k < half; ++k) line.at[k] = __dadd_rn(line.at[k], line.at[k + half]);
    }
    const ExactSum::Cut cut = ExactSum::cut(line.at[0]);
    if (cut.first >= 0) {
#pragma unroll
      for (int k = 0; k < 3; ++k)
        mine[cut.first + k][threadIdx.x] += static_cast<unsigned long long>(cut.pieces[k]);
    }
    bad += cut.first == ExactSum::Cut::bad ? 1 : 0;
  }
  if (bad > 0) atomicAdd(sum + places, bad);
  __syncthreads();
  for (unsigned p = warp; p < places; p += warps) {
    unsigned long long of_place = 0;
    for (unsigned t = lane; t < threads_per_block; t += lanes) of_place += mine[p][t];
#pragma unroll
    for (unsigned distance = lanes / 2; distance > 0; distance /= 2)
      of_place += __shfl_xor_sync(0xffffffffU, of_place, static_cast<int>(distance));
    if (lane == 0) total[p] = of_place;
  }
  __syncthreads();
  if (threadIdx.x >= places) return;
  const unsigned p = threadIdx.x;
  const unsigned long long carried = p > 0 ? total[p - 1] >> 32U : 0;
  const unsigned long long kept = p + 1 < places ? total[p] & 0xffffffffU : total[p];
  if (kept + carried > 0) atomicAdd(sum + p, kept + carried);
}

}  // namespace

cudaError_t add_squares(std::int64_t* sum, ConstView gradients, cudaStream_t stream) {
  if (gradients.empty()) return cudaSuccess;
  if (!aligned(gradients.data(), vector_bytes)) return cudaErrorMisalignedAddress;
  return of_floating(gradients.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) > sizeof(float)) {
      return cudaErrorInvalidValue;  // gradient_norm.cpp refused it before
    } else {
      constexpr std::size_t width = vector_bytes / sizeof(T);
      const auto kernel = add_squares_kernel<width, T>;
      int most = 0;
      const cudaError_t code = blocks_at_a_time(kernel, threads_per_block, most);
      if (code != cudaSuccess) return code;
      constexpr std::int64_t bytes_a_block = bytes_at_once * (threads_per_block / lanes);
      const auto bytes = static_cast<std::int64_t>(gradients.size_bytes());
      const std::int64_t blocks = std::min<std::int64_t>((bytes + bytes_a_block - 1) / bytes_a_block, most);
      return launch(kernel, static_cast<unsigned>(blocks), threads_per_block, stream,
                    reinterpret_cast<unsigned long long*>(sum), static_cast<const T*>(gradients.data()),
                    gradients.count());
    }
  });
}

}  // namespace weft::detail::cuda::kernels
