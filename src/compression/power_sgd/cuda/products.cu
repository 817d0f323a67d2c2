// The two products of a matrix and its residual with a factor. A kernel reads matrix and residual once for up
// to 8 ranks. Factors, which all rows share, are read through the first-level cache; what is read once
// bypasses it.

#include <algorithm>

#include "compression/power_sgd/cuda/low_rank_launch.hpp"
#include "compression/power_sgd/cuda/low_rank_table.cuh"

namespace weft::detail::cuda::kernels {
namespace {

constexpr int threads = 256;

template <Kept kind>
__device__ float with_residual(const Matrix& matrix, std::int64_t at, float scale) {
  const float value = __ldcg(matrix.values + at);
  if constexpr (kind == Kept::floats) {
    return __fadd_rn(value, __ldcg(static_cast<const float*>(matrix.kept.values) + at));
  } else if constexpr (kind == Kept::steps) {
    const short steps = __ldcg(static_cast<const short*>(matrix.kept.values) + at);
    return __fadd_rn(value, __fmul_rn(static_cast<float>(steps), scale));
  } else {
    return value;
  }
}

template <Kept kind>
__device__ float scale_of(const Matrix& matrix, std::int64_t row, std::int64_t column) {
  if constexpr (kind != Kept::steps) return 0;
  return __ldg(matrix.kept.scales + row * blocks_of(matrix.columns) + column / residual_block);
}

/// Calls `function` with the kind of a residual as a constant.
template <class Function>
__device__ void with_kind_of(const Residual& residual, Function function) {
  switch (kept_in(residual)) {
    case Kept::nothing:
      return function(std::integral_constant<Kept, Kept::nothing>());
    case Kept::floats:
      return function(std::integral_constant<Kept, Kept::floats>());
    case Kept::steps:
      return function(std::integral_constant<Kept, Kept::steps>());
  }
}

// Sums over a row: 16 threads have a partial sum each, as on the host, for `rows` rows at once. With few
// rows, a thread reads ahead in its own row instead of in other rows: the bits are the same.
constexpr int rows_of_many = 4;

template <int ranks, int rows, int ahead, Kept kind, bool whole>
__device__ void add_tile(const LowRankJob& job, const std::int64_t (&row)[rows], std::int64_t column,
                         int first_rank, float (&sum)[rows][ranks]) {
  const Matrix& matrix = job.matrix;
  const std::int64_t mine = column + threadIdx.x % partial_sums;
  float a[rows][ahead];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const float scale = scale_of<kind>(matrix, row[r], column);
#pragma unroll
    for (int u = 0; u < ahead; ++u) {
      const std::int64_t j = mine + u * partial_sums;
      a[r][u] =
          whole || j < matrix.columns ? with_residual<kind>(matrix, row[r] * matrix.columns + j, scale) : 0;
    }
  }
#pragma unroll
  for (int k = 0; k < ranks; ++k) {
    if (first_rank + k >= job.rank) break;
    const float* right = job.basis + (first_rank + k) * matrix.columns;
#pragma unroll
    for (int u = 0; u < ahead; ++u) {
      const std::int64_t j = mine + u * partial_sums;
      const float by = whole || j < matrix.columns ? __ldg(right + j) : 0;
#pragma unroll
      for (int r = 0; r < rows; ++r) sum[r][k] = __fadd_rn(sum[r][k], __fmul_rn(a[r][u], by));
    }
  }
}

template <int ranks, int rows, Kept kind>
__device__ void project_rows(const LowRankJob& job, std::int64_t first_row, int first_rank) {
  constexpr int ahead = 16 / rows;
  constexpr std::int64_t columns = ahead * partial_sums;  // a tile's, which share a scale
  const Matrix& matrix = job.matrix;
  std::int64_t row[rows];
  for (int r = 0; r < rows; ++r) row[r] = lesser(first_row + r, matrix.rows - 1);  // the last: maybe twice
  float sum[rows][ranks] = {};
  std::int64_t j = 0;
  for (; j + columns <= matrix.columns; j += columns)
    add_tile<ranks, rows, ahead, kind, true>(job, row, j, first_rank, sum);
  if (j < matrix.columns) add_tile<ranks, rows, ahead, kind, false>(job, row, j, first_rank, sum);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int k = 0; k < ranks; ++k) {
      float all = sum[r][k];
      for (int half = partial_sums / 2; half > 0; half /= 2)
        all = __fadd_rn(all, __shfl_down_sync(~0U, all, half, partial_sums));
      if (threadIdx.x % partial_sums == 0 && first_row + r < matrix.rows && first_rank + k < job.rank)
        job.mine[(first_rank + k) * matrix.rows + first_row + r] = all;
    }
  }
}

template <int ranks, int rows>
__global__ void __launch_bounds__(threads) project_kernel(const __grid_constant__ Table<LowRankJob> table) {
  const Share share = share_of(table);
  const LowRankJob& job = table.items[share.item];
  const std::int64_t first_row =
      (std::int64_t{share.block} * (threads / partial_sums) + threadIdx.x / partial_sums) * rows;
  for (int k = 0; k < job.rank; k += ranks)
    with_kind_of(job.matrix.kept, [&](auto kind) { project_rows<ranks, rows, kind()>(job, first_row, k); });
}

// Sums over rows: a thread block has `rows_a_sum` rows of a stripe of columns; each warp takes every eighth
// row.
constexpr int stripe = 128;
constexpr int warps = threads / 32;
constexpr int rows_at_once = 4;

constexpr std::int64_t sums_of(const Matrix& matrix) {
  return (matrix.rows + rows_a_sum - 1) / rows_a_sum;
}
constexpr std::int64_t stripes_of(const Matrix& matrix) {
  return (matrix.columns + stripe - 1) / stripe;
}

/// The four columns of a thread: adjacent where one load can bring them, otherwise every 32nd.
template <bool side_by_side>
__device__ int column_of(int q) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return side_by_side ? 4 * lane + q : lane + 32 * q;
}

template <Kept kind, bool side_by_side>
__device__ void load(const Matrix& matrix, std::int64_t row, std::int64_t column, float (&a)[4]) {
  const float scale = scale_of<kind>(matrix, row, column);
  const std::int64_t at = row * matrix.columns + column;
  if constexpr (!side_by_side) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int c = column_of<false>(q);
      a[q] = column + c < matrix.columns ? with_residual<kind>(matrix, at + c, scale) : 0;
    }
  } else if (const int c = column_of<true>(0); column + c < matrix.columns) {
    const float4 values = __ldcg(reinterpret_cast<const float4*>(matrix.values + at + c));
    float4 kept{};
    if constexpr (kind == Kept::floats)
      kept = __ldcg(reinterpret_cast<const float4*>(static_cast<const float*>(matrix.kept.values) + at + c));
    if constexpr (kind == Kept::steps) {
      const short4 steps =
          __ldcg(reinterpret_cast<const short4*>(static_cast<const short*>(matrix.kept.values) + at + c));
      kept = {__fmul_rn(steps.x, scale), __fmul_rn(steps.y, scale), __fmul_rn(steps.z, scale),
              __fmul_rn(steps.w, scale)};
    }
    a[0] = __fadd_rn(values.x, kept.x);
    a[1] = __fadd_rn(values.y, kept.y);
    a[2] = __fadd_rn(values.z, kept.z);
    a[3] = __fadd_rn(values.w, kept.w);
  } else {
    for (float& one : a) one = 0;
  }
}

template <int ranks>
struct RowSums {
  float left[ranks][rows_a_sum];
  float partial[warps][stripe];
};

template <int ranks, Kept kind, bool side_by_side>
__device__ void sum_rows(const LowRankJob& job, std::uint32_t block, int first_rank, RowSums<ranks>& shared) {
  const Matrix& matrix = job.matrix;
  const std::int64_t number = block / stripes_of(matrix);
  const std::int64_t column = block % stripes_of(matrix) * stripe;
  const std::int64_t first_row = number * rows_a_sum;
  const int rows = static_cast<int>(lesser(rows_a_sum, matrix.rows - first_row));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < ranks * rows_a_sum; i += threads) {
    const int k = first_rank + i / static_cast<int>(rows_a_sum);
    const int r = i % static_cast<int>(rows_a_sum);
    shared.left[i / rows_a_sum][r] =
        k < job.rank && r < rows ? __ldg(job.basis + k * matrix.rows + first_row + r) : 0;
  }
  __syncthreads();
  float sum[ranks][4] = {};
  for (int begin = warp; begin < rows; begin += warps * rows_at_once) {
    float a[rows_at_once][4] = {};
#pragma unroll
    for (int u = 0; u < rows_at_once; ++u) {
      if (begin + u * warps < rows)
        load<kind, side_by_side>(matrix, first_row + begin + u * warps, column, a[u]);
    }
#pragma unroll
    for (int u = 0; u < rows_at_once; ++u) {
      const int r = begin + u * warps;  // beyond the last row, both are zero
#pragma unroll
      for (int k = 0; k < ranks; ++k) {
#pragma unroll
        for (int q = 0; q < 4; ++q) sum[k][q] = __fadd_rn(sum[k][q], __fmul_rn(a[u][q], shared.left[k][r]));
      }
    }
  }
  float* const out = sums_of(matrix) == 1 ? job.mine : job.sums + number * job.rank * matrix.columns;
#pragma unroll
  for (int k = 0; k < ranks; ++k) {
    if (first_rank + k >= job.rank) break;
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 4; ++q) shared.partial[warp][column_of<side_by_side>(q)] = sum[k][q];
    __syncthreads();
    if (const int c = static_cast<int>(threadIdx.x); c < stripe && column + c < matrix.columns) {
      float all = 0;
      for (int w = 0; w < warps; ++w) all = __fadd_rn(all, shared.partial[w][c]);
      out[(first_rank + k) * matrix.columns + column + c] = all;
    }
  }
}

template <int ranks>
__global__ void __launch_bounds__(threads) sum_rows_kernel(const __grid_constant__ Table<LowRankJob> table) {
  __shared__ RowSums<ranks> shared;
  const Share share = share_of(table);
  const LowRankJob& job = table.items[share.item];
  const Matrix& matrix = job.matrix;
  const bool side_by_side = matrix.columns % 4 == 0 && aligned(matrix.values) && aligned(matrix.kept.values);
  for (int k = 0; k < job.rank; k += ranks) {
    with_kind_of(matrix.kept, [&](auto kind) {
      if (side_by_side) {
        sum_rows<ranks, kind(), true>(job, share.block, k, shared);
      } else {
        sum_rows<ranks, kind(), false>(job, share.block, k, shared);
      }
    });
  }
}

/// mine[i] = the sums of all blocks of rows, in order.
__global__ void add_sums_kernel(const __grid_constant__ Table<LowRankJob> table) {
  const Share share = share_of(table);
  const LowRankJob& job = table.items[share.item];
  const std::int64_t elements = job.rank * job.matrix.columns;
  const std::int64_t i = std::int64_t{share.block} * threads + threadIdx.x;
  if (i >= elements) return;
  float all = 0;
#pragma unroll 8
  for (std::int64_t number = 0; number < sums_of(job.matrix); ++number)
    all = __fadd_rn(all, job.sums[number * elements + i]);
  job.mine[i] = all;
}

/// Calls `function` with how many ranks a kernel takes at a time for these jobs.
template <class Function>
cudaError_t for_ranks(std::span<const LowRankJob> jobs, Function function) {
  int most = 0;
  for (const LowRankJob& job : jobs) most = std::max(most, job.rank);
  if (most <= 1) return function(std::integral_constant<int, 1>());
  if (most <= 2) return function(std::integral_constant<int, 2>());
  if (most <= 4) return function(std::integral_constant<int, 4>());
  return function(std::integral_constant<int, 8>());
}

template <int ranks, int rows>
cudaError_t project_all(std::span<const LowRankJob> jobs, cudaStream_t stream) {
  constexpr std::int64_t rows_a_block = rows * (threads / partial_sums);
  return for_each_table(
      jobs, [](const LowRankJob& job) { return (job.matrix.rows + rows_a_block - 1) / rows_a_block; },
      [&](const Table<LowRankJob>& table, std::uint32_t blocks) {
        return launch(project_kernel<ranks, rows>, blocks, threads, stream, table);
      });
}

}  // namespace

cudaError_t project(std::span<const LowRankJob> jobs, cudaStream_t stream) {
  constexpr std::int64_t many = 32'768;  // rows with which 132 multiprocessors have threads enough
  std::int64_t all = 0;
  for (const LowRankJob& job : jobs) all += job.matrix.rows;
  return for_ranks(jobs, [&](auto ranks) {
    return all < many ? project_all<ranks(), 1>(jobs, stream)
                      : project_all<ranks(), rows_of_many>(jobs, stream);
  });
}

cudaError_t project_transposed(std::span<const LowRankJob> jobs, cudaStream_t stream) {
  const cudaError_t code = for_ranks(jobs, [&](auto ranks) {
    return for_each_table(
        jobs, [](const LowRankJob& job) { return sums_of(job.matrix) * stripes_of(job.matrix); },
        [&](const Table<LowRankJob>& table, std::uint32_t blocks) {
          return launch(sum_rows_kernel<ranks()>, blocks, threads, stream, table);
        });
  });
  if (code != cudaSuccess) return code;
  return for_each_table(
      jobs,
      [](const LowRankJob& job) {
        return sums_of(job.matrix) == 1 ? 0 : (job.rank * job.matrix.columns + threads - 1) / threads;
      },
      [&](const Table<LowRankJob>& table, std::uint32_t blocks) {
        return launch(add_sums_kernel, blocks, threads, stream, table);
      });
}

}  // namespace weft::detail::cuda::kernels
