// Makes factors orthonormal, and checks that means are finite, with the bits of
// compression/power_sgd/low_rank.cpp, so that ranks decide alike. A thread block works on one factor. Thread
// t owns the elements t, t + 256, ... of every vector, so that only sums cross threads.

#include <algorithm>

#include "compression/power_sgd/cuda/low_rank_launch.hpp"
#include "compression/power_sgd/cuda/low_rank_table.cuh"

namespace weft::detail::cuda::kernels {
namespace {

constexpr int threads = 256;  // as many as the host has partial sums
constexpr unsigned most_blocks = 264;

template <class Function>
__device__ void for_own(std::int64_t length, Function function) {
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < length; i += threads) function(i);
}

/// The sum of one value a thread, by halves as on the host; all threads get it.
__device__ double by_halves(double mine) {
  __shared__ double partial[threads];
  __syncthreads();
  partial[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half >= 32; half /= 2) {
    if (threadIdx.x < half)
      partial[threadIdx.x] = __dadd_rn(partial[threadIdx.x], partial[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    double sum = partial[threadIdx.x];
    for (int half = 16; half > 0; half /= 2) sum = __dadd_rn(sum, __shfl_down_sync(~0U, sum, half));
    if (threadIdx.x == 0) partial[0] = sum;
  }
  __syncthreads();
  return partial[0];
}

__device__ double dot(const float* a, const float* b, std::int64_t length) {
  double sum = 0;
  for_own(length, [&](std::int64_t i) {
    sum = __dadd_rn(sum, __dmul_rn(static_cast<double>(a[i]), static_cast<double>(b[i])));
  });
  return by_halves(sum);
}

__device__ void subtract(float* from, double factor, const float* vector, std::int64_t length) {
  for_own(length, [&](std::int64_t i) {
    from[i] = static_cast<float>(
        __dsub_rn(static_cast<double>(from[i]), __dmul_rn(factor, static_cast<double>(vector[i]))));
  });
}

/// @returns true, in all threads, if a vector became zero
__device__ bool make_orthonormal(float* factor, int rank, std::int64_t length) {
  constexpr double nothing = 1.0 / (1 << 20);
  bool any_zero = false;
  for (int k = 0; k < rank; ++k) {
    float* const vector = factor + k * length;
    const double before = __dsqrt_rn(dot(vector, vector, length));
    if (!isfinite(before)) {
      for_own(rank * length, [&](std::int64_t i) { factor[i] = __int_as_float(0x7fc00000); });
      return false;
    }
    for (int round = 0; round < 2; ++round) {
      for (int other = 0; other < k; ++other) {
        const float* const by = factor + other * length;
        subtract(vector, dot(by, vector, length), by, length);
      }
    }
    const double left = __dsqrt_rn(dot(vector, vector, length));
    if (left > __dmul_rn(nothing, before)) {
      const double inverse = __ddiv_rn(1, left);
      for_own(length, [&](std::int64_t i) {
        vector[i] = static_cast<float>(__dmul_rn(static_cast<double>(vector[i]), inverse));
      });
    } else {
      for_own(length, [&](std::int64_t i) { vector[i] = 0; });
      any_zero = true;
    }
  }
  return any_zero;
}

/// SplitMix64, as on the host.
__device__ std::uint64_t mixed(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31U);
}

__device__ void draw(float* vector, std::int64_t length, std::uint64_t seed, int k) {
  const std::uint64_t counter = mixed(mixed(seed + static_cast<std::uint64_t>(k)));
  for_own(length, [&](std::int64_t i) {
    const auto word = static_cast<std::int64_t>(mixed(counter + static_cast<std::uint64_t>(i)) >> 40U);
    vector[i] = __fmul_rn(static_cast<float>(2 * word + 1 - (std::int64_t{1} << 24U)), 1.0F / (1 << 24));
  });
}

__device__ bool is_zero(const float* vector, std::int64_t length) {
  int other = 0;
  for_own(length, [&](std::int64_t i) { other |= vector[i] == 0 ? 0 : 1; });
  return __syncthreads_or(other) == 0;
}

__global__ void orthonormalize_kernel(const __grid_constant__ Table<LowRankJob> table) {
  const LowRankJob& job = table.items[share_of(table).item];
  make_orthonormal(job.mean, job.rank, length(job));
}

__global__ void start_next_kernel(const __grid_constant__ Table<LowRankJob> table) {
  const LowRankJob& job = table.items[share_of(table).item];
  const std::int64_t size = length(job);
  // Vector by vector: in the whole factor, thread t would own other elements.
  for (int k = 0; k < job.rank; ++k)
    for_own(size, [&](std::int64_t i) { job.next_basis[k * size + i] = job.mean[k * size + i]; });
  if (!make_orthonormal(job.next_basis, job.rank, size)) return;
  for (int k = 0; k < job.rank; ++k) {
    float* const vector = job.next_basis + k * size;
    if (is_zero(vector, size)) draw(vector, size, job.seed, k);
  }
  make_orthonormal(job.next_basis, job.rank, size);
}

__global__ void start_anew_kernel(const __grid_constant__ Table<LowRankJob> table) {
  const LowRankJob& job = table.items[share_of(table).item];
  const std::int64_t size = length(job);
  for (int k = 0; k < job.rank; ++k) draw(job.next_basis + k * size, size, job.seed, k);
  make_orthonormal(job.next_basis, job.rank, size);
}

__global__ void check_finite_kernel(const __grid_constant__ Table<LowRankJob> table, std::int32_t* bad) {
  const LowRankJob& job = table.items[share_of(table).item];
  const std::int64_t elements = job.rank * length(job);
  int is_bad = 0;
  for_own(elements, [&](std::int64_t i) { is_bad |= isfinite(job.mean[i] * factor_headroom) ? 0 : 1; });
  if (__syncthreads_or(is_bad) == 0) return;
  for_own(elements, [&](std::int64_t i) { job.mean[i] = __int_as_float(0x7fc00000); });
  if (threadIdx.x == 0) *static_cast<volatile std::int32_t*>(bad) = 1;
}

/// Several threads may write the flag; all write the same.
template <class T, class IsBad>
__global__ void look_kernel(const T* elements, std::int64_t count, std::int32_t* bad, IsBad is_bad) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  bool found = false;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    found = found || is_bad(elements[i]);
  if (found) *static_cast<volatile std::int32_t*>(bad) = 1;
}

struct IsNotFinite {
  __device__ bool operator()(float value) const { return !isfinite(value); }
};
struct IsNotZero {
  __device__ bool operator()(std::int64_t value) const { return value != 0; }
};

template <class T, class IsBad>
cudaError_t look(ConstView view, std::int32_t* bad, IsBad is_bad, cudaStream_t stream) {
  if (view.empty()) return cudaSuccess;
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>((view.count() + threads - 1) / threads, most_blocks));
  return launch(look_kernel<T, IsBad>, blocks, threads, stream, static_cast<const T*>(view.data()),
                view.count(), bad, is_bad);
}

using JobKernel = void (*)(Table<LowRankJob>);

cudaError_t block_a_job(std::span<const LowRankJob> jobs, JobKernel kernel, cudaStream_t stream) {
  return for_each_table(
      jobs, [](const LowRankJob&) { return 1; },
      [&](const Table<LowRankJob>& table, std::uint32_t blocks) {
        return launch(kernel, blocks, threads, stream, table);
      });
}

}  // namespace

cudaError_t check_finite(std::span<const LowRankJob> jobs, std::int32_t* bad, cudaStream_t stream) {
  return for_each_table(
      jobs, [](const LowRankJob&) { return 1; },
      [&](const Table<LowRankJob>& table, std::uint32_t blocks) {
        return launch(check_finite_kernel, blocks, threads, stream, table, bad);
      });
}
cudaError_t check_finite(ConstView sums, std::int32_t* bad, cudaStream_t stream) {
  return look<float>(sums, bad, IsNotFinite(), stream);
}
cudaError_t check_counts(ConstView counts, std::int32_t* bad, cudaStream_t stream) {
  return look<std::int64_t>(counts, bad, IsNotZero(), stream);
}
cudaError_t orthonormalize(std::span<const LowRankJob> jobs, cudaStream_t stream) {
  return block_a_job(jobs, orthonormalize_kernel, stream);
}
cudaError_t start_next(std::span<const LowRankJob> jobs, cudaStream_t stream) {
  return block_a_job(jobs, start_next_kernel, stream);
}
cudaError_t start_anew(std::span<const LowRankJob> jobs, cudaStream_t stream) {
  return block_a_job(jobs, start_anew_kernel, stream);
}

}  // namespace weft::detail::cuda::kernels
