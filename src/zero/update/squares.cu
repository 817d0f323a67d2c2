// Adds the squares of gradients to an exact sum (zero/update/exact_sum.hpp) that lies on the device: one read of the gradients, nothing written
// but the sum, 184 bytes.
//
//   1. A line of 128 bytes lies in 8 lanes, 16 bytes each. A warp takes 32 lines at a time, 8 loads a lane.
//   2. 8 lanes exchange the 16 bytes of 8 lines, so that each has a line: three rounds, in which a lane gives half of what it has away. What is
//      exchanged are the gradients as they lie; their squares, as doubles, would be two to four times as much.
//   3. A lane adds up the tree of its line (halves are added, as add_squares() of gradient_norm.cpp does), and adds the line to places of its own,
//      in shared memory; integers, so that no order matters.
//   4. A block adds up its threads' places, carries, and adds them to the sum with 23 atomics.
//
// A launch takes up to 64 pieces, such as a model's buckets: of 25 MiB each, launches would take as long as reading.

#include <bit>

#include "core/cuda/elements.cuh"
#include "core/cuda/launch.cuh"
#include "zero/update/exact_sum.hpp"
#include "zero/update/update_launch.hpp"

namespace weft::detail::cuda::kernels {
namespace {

constexpr unsigned lanes = 32;
constexpr int loads = 8;
constexpr std::int64_t bytes_at_once = std::int64_t{lanes} * loads * vector_bytes;
constexpr unsigned places = ExactSum::places_count;

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

/// What a lane has of the lines that 8 lanes read: value k is 16 bytes of line k; then, of the lane's own line, the k-th 16 bytes.
template <unsigned distance, class T, std::size_t width>
__device__ void exchange(Vector<T, width> (&values)[loads]) {
  struct Words {
    std::uint32_t at[vector_bytes / sizeof(std::uint32_t)];
  };
  const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
  for (unsigned k = 0; k < loads; ++k) {
    if ((k & distance) != 0) continue;
    auto low = std::bit_cast<Words>(values[k]);
    auto high = std::bit_cast<Words>(values[k | distance]);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const std::uint32_t taken =
          __shfl_xor_sync(0xffffffffU, upper ? low.at[w] : high.at[w], static_cast<int>(distance));
      if (upper) {
        low.at[w] = taken;
      } else {
        high.at[w] = taken;
      }
    }
    values[k] = std::bit_cast<Vector<T, width>>(low);
    values[k | distance] = std::bit_cast<Vector<T, width>>(high);
  }
  if constexpr (distance > 1) exchange<distance / 2>(values);
}

/// In the order of the host function, so no multiplication is fused.
template <class T>
__device__ double square(T element) {
  const auto value = static_cast<double>(widen<float>(element));
  return __dmul_rn(value, value);
}

/// Halves are added: first elements half a line apart, which lie in values 0 and 4, 1 and 5, and so on.
template <class T, std::size_t width>
__device__ double sum_of_line(const Vector<T, width> (&values)[loads]) {
  double sum[width];
#pragma unroll
  for (std::size_t w = 0; w < width; ++w) {
    const auto pair = [&](int k) { return __dadd_rn(square(values[k].at[w]), square(values[k + 4].at[w])); };
    sum[w] = __dadd_rn(__dadd_rn(pair(0), pair(2)), __dadd_rn(pair(1), pair(3)));
  }
#pragma unroll
  for (std::size_t half = width / 2; half > 0; half /= 2) {
#pragma unroll
    for (std::size_t w = 0; w < half; ++w) sum[w] = __dadd_rn(sum[w], sum[w + half]);
  }
  return sum[0];
}

constexpr int pieces_a_launch = 64;
struct Pieces {
  const void* data[pieces_a_launch];
  std::int64_t count[pieces_a_launch];
  std::int64_t begin[pieces_a_launch + 1];  // number of a piece's first round of a warp
};

template <std::size_t width, class T>
__global__ void __launch_bounds__(threads_per_block, sizeof(T) == 4 ? 3 : 2)
    add_squares_kernel(unsigned long long* sum, const __grid_constant__ Pieces pieces) {
  __shared__ unsigned long long mine[places][threads_per_block];
  __shared__ unsigned long long total[places];
#pragma unroll
  for (unsigned p = 0; p < places; ++p) mine[p][threadIdx.x] = 0;
  unsigned long long bad = 0;
  const unsigned lane = threadIdx.x % lanes;
  const unsigned warp = threadIdx.x / lanes;
  constexpr unsigned warps = threads_per_block / lanes;
  constexpr std::int64_t at_once = bytes_at_once / sizeof(T);
  const std::int64_t stride = std::int64_t{gridDim.x} * warps;
  int piece = 0;
  for (std::int64_t round = std::int64_t{blockIdx.x} * warps + warp; round < pieces.begin[pieces_a_launch];
       round += stride) {
    while (round >= pieces.begin[piece + 1]) ++piece;
    const T* const data = static_cast<const T*>(pieces.data[piece]);
    const std::int64_t count = pieces.count[piece];
    const std::int64_t begin = (round - pieces.begin[piece]) * at_once;
    Vector<T, width> values[loads];
#pragma unroll
    for (int k = 0; k < loads; ++k)
      values[k] = load<T, width>(data, begin + static_cast<std::int64_t>((k * lanes + lane) * width), count);
    exchange<loads / 2>(values);
    const ExactSum::Cut cut = ExactSum::cut(sum_of_line(values));
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

cudaError_t add_squares(std::int64_t* sum, std::span<const ConstView> gradients, cudaStream_t stream) {
  if (gradients.empty()) return cudaSuccess;
  return of_floating(gradients.front().dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) > sizeof(float)) {
      return cudaErrorInvalidValue;  // gradient_norm.cpp refused it before
    } else {
      const auto kernel = add_squares_kernel<vector_bytes / sizeof(T), T>;
      int most = 0;
      cudaError_t code = blocks_at_a_time(kernel, threads_per_block, most);
      while (code == cudaSuccess && !gradients.empty()) {
        const auto some = gradients.first(std::min<std::size_t>(gradients.size(), pieces_a_launch));
        gradients = gradients.subspan(some.size());
        Pieces pieces{};
        for (std::size_t i = 0; i < pieces_a_launch; ++i) {
          pieces.begin[i + 1] = pieces.begin[i];
          if (i >= some.size()) continue;
          if (!aligned(some[i].data(), vector_bytes)) return cudaErrorMisalignedAddress;
          pieces.data[i] = some[i].data();
          pieces.count[i] = some[i].count();
          pieces.begin[i + 1] +=
              (static_cast<std::int64_t>(some[i].size_bytes()) + bytes_at_once - 1) / bytes_at_once;
        }
        const std::int64_t rounds = pieces.begin[pieces_a_launch];
        constexpr std::int64_t warps = threads_per_block / lanes;
        if (rounds == 0) continue;
        code =
            launch(kernel, static_cast<unsigned>(std::min<std::int64_t>((rounds + warps - 1) / warps, most)),
                   threads_per_block, stream, reinterpret_cast<unsigned long long*>(sum), pieces);
      }
      return code;
    }
  });
}

}  // namespace weft::detail::cuda::kernels
