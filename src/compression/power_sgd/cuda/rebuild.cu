// Writes the results of a step: the gradient as the product of the mean factors, and the residual, what this
// rank did not send. A warp works on 256 columns of a row, which share a scale, or of several rows at once. It reads its part
// of a matrix before it writes there.

#include "compression/power_sgd/cuda/low_rank_launch.hpp"
#include "compression/power_sgd/cuda/low_rank_table.cuh"

namespace weft::detail::cuda::kernels {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int rows_a_warp = 4;
constexpr int columns_a_thread = residual_block / 32;
constexpr std::int64_t rows_a_block = warps * rows_a_warp;

enum class Pass { rebuild, keep, expand };

// Who reads a matrix takes one row at a time and 64 registers a thread, so that 32 warps of a multiprocessor have loads under way: on an H200, 1.2 to
// 1.3 times as fast as two rows and 16 warps (bench/results, "PowerSGD's kernels"). Who only writes shares what it reads of the factors between rows.
constexpr int rows_at_once(Pass pass) {
  return pass == Pass::expand ? 2 : 1;
}
constexpr int blocks_at_once = 4;

/// The eight columns of a thread: two groups of four adjacent ones where loads can bring them,
/// otherwise every 32nd.
template <bool side_by_side>
__device__ int column_of(int q) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return side_by_side ? q / 4 * (residual_block / 2) + 4 * lane + q % 4 : lane + 32 * q;
}

enum class Cache { streamed, shared };

/// @param from the first of the block's columns; `columns` are left in the row
template <bool side_by_side, Cache cache>
__device__ void load(const float* from, std::int64_t columns, float (&to)[columns_a_thread]) {
  if constexpr (side_by_side) {
#pragma unroll
    for (int q = 0; q < columns_a_thread; q += 4) {
      const int c = column_of<true>(q);
      float4 four{};
      if (c < columns) {
        const auto* address = reinterpret_cast<const float4*>(from + c);
        four = cache == Cache::shared ? __ldg(address) : __ldcg(address);
      }
      to[q] = four.x;
      to[q + 1] = four.y;
      to[q + 2] = four.z;
      to[q + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int q = 0; q < columns_a_thread; ++q) {
      const int c = column_of<false>(q);
      to[q] = c >= columns ? 0 : cache == Cache::shared ? __ldg(from + c) : __ldcg(from + c);
    }
  }
}

template <bool side_by_side>
__device__ void load(const short* from, std::int64_t columns, float scale, float (&to)[columns_a_thread]) {
#pragma unroll
  for (int q = 0; q < columns_a_thread; q += side_by_side ? 4 : 1) {
    const int c = column_of<side_by_side>(q);
    if constexpr (side_by_side) {
      short4 steps{};
      if (c < columns) steps = __ldcg(reinterpret_cast<const short4*>(from + c));
      to[q] = __fmul_rn(steps.x, scale);
      to[q + 1] = __fmul_rn(steps.y, scale);
      to[q + 2] = __fmul_rn(steps.z, scale);
      to[q + 3] = __fmul_rn(steps.w, scale);
    } else {
      to[q] = c < columns ? __fmul_rn(__ldcg(from + c), scale) : 0;
    }
  }
}

/// The matrix and its residual.
template <bool side_by_side>
__device__ void load_both(const Matrix& matrix, std::int64_t row, std::int64_t column,
                          float (&a)[columns_a_thread]) {
  const std::int64_t at = row * matrix.columns + column;
  const std::int64_t columns = matrix.columns - column;
  float kept[columns_a_thread];
  load<side_by_side, Cache::streamed>(matrix.values + at, columns, a);
  switch (kept_in(matrix.kept)) {
    case Kept::nothing:
      return;
    case Kept::floats:
      load<side_by_side, Cache::streamed>(static_cast<const float*>(matrix.kept.values) + at, columns, kept);
      break;
    case Kept::steps:
      load<side_by_side>(
          static_cast<const short*>(matrix.kept.values) + at, columns,
          __ldg(matrix.kept.scales + row * blocks_of(matrix.columns) + column / residual_block), kept);
      break;
  }
#pragma unroll
  for (int q = 0; q < columns_a_thread; ++q) a[q] = __fadd_rn(a[q], kept[q]);
}

/// Same bits as residual_scale().
__device__ float scale_for(float largest) {
  const std::uint32_t exponent = __float_as_uint(largest) >> 23U;
  constexpr std::uint32_t bits = 14;
  const std::uint32_t held = exponent < bits + 1 ? bits + 1 : exponent > 254 ? 254 : exponent;
  return __uint_as_float((held - bits) << 23U);
}

__device__ short in_steps(float value, float inverse) {
  const int steps = __float2int_rn(__fmul_rn(value, inverse));
  return static_cast<short>(steps > INT16_MAX ? INT16_MAX : steps < -INT16_MAX ? -INT16_MAX : steps);
}

template <bool side_by_side>
__device__ void store(float* to, std::int64_t columns, const float (&from)[columns_a_thread]) {
#pragma unroll
  for (int q = 0; q < columns_a_thread; q += side_by_side ? 4 : 1) {
    const int c = column_of<side_by_side>(q);
    if (c >= columns) continue;
    if constexpr (side_by_side) {
      *reinterpret_cast<float4*>(to + c) = {from[q], from[q + 1], from[q + 2], from[q + 3]};
    } else {
      to[c] = from[q];
    }
  }
}

/// Stores what lies in the part. @param at the first of the block's columns, in the matrix
template <bool side_by_side>
__device__ void store_part(const LowRankPart& part, std::int64_t at, std::int64_t columns,
                           const float (&from)[columns_a_thread]) {
  constexpr int width = side_by_side ? 4 : 1;
  float* const values = part.job.matrix.values + at;
#pragma unroll
  for (int q = 0; q < columns_a_thread; q += width) {
    const int c = column_of<side_by_side>(q);
    if (c >= columns) continue;
    if (side_by_side && at + c >= part.begin && at + c + width <= part.end) {
      *reinterpret_cast<float4*>(values + c) = {from[q], from[q + 1], from[q + 2], from[q + 3]};
      continue;
    }
#pragma unroll
    for (int k = 0; k < width; ++k) {
      if (at + c + k >= part.begin && at + c + k < part.end) values[c + k] = from[q + k];
    }
  }
}

/// Stores 256 columns of a row as residual. All threads of the warp take part.
template <bool side_by_side>
__device__ void keep(const Matrix& matrix, std::int64_t row, std::int64_t column, bool is_there,
                     const float (&lost)[columns_a_thread]) {
  const std::int64_t at = row * matrix.columns + column;
  const std::int64_t columns = matrix.columns - column;
  if (matrix.next.scales == nullptr) {
    if (is_there) store<side_by_side>(static_cast<float*>(matrix.next.values) + at, columns, lost);
    return;
  }
  float largest = 0;
#pragma unroll
  for (int q = 0; q < columns_a_thread; ++q) {
    if (column_of<side_by_side>(q) < columns) largest = fmaxf(largest, fabsf(lost[q]));
  }
  for (int half = 16; half > 0; half /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, half));
  if (!is_there) return;
  const float scale = scale_for(largest);
  const float inverse = __fdiv_rn(1, scale);
  if (threadIdx.x % 32 == 0)
    matrix.next.scales[row * blocks_of(matrix.columns) + column / residual_block] = scale;
  short* const to = static_cast<short*>(matrix.next.values) + at;
#pragma unroll
  for (int q = 0; q < columns_a_thread; q += side_by_side ? 4 : 1) {
    const int c = column_of<side_by_side>(q);
    if (c >= columns) continue;
    if constexpr (side_by_side) {
      *reinterpret_cast<short4*>(to + c) = {in_steps(lost[q], inverse), in_steps(lost[q + 1], inverse),
                                            in_steps(lost[q + 2], inverse), in_steps(lost[q + 3], inverse)};
    } else {
      to[c] = in_steps(lost[q], inverse);
    }
  }
}

template <int rows>
using Sums = float[rows][columns_a_thread];

template <int rows>
__device__ void add_product(const float* left, const std::int64_t (&row)[rows],
                            const float (&right)[columns_a_thread], Sums<rows>& sums) {
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const float by = __ldg(left + row[r]);
#pragma unroll
    for (int q = 0; q < columns_a_thread; ++q) sums[r][q] = __fadd_rn(sums[r][q], __fmul_rn(by, right[q]));
  }
}

/// Writes rows of a part; all but the first may be beyond its end.
template <Pass pass, bool side_by_side>
__device__ void take_rows(const LowRankPart& part, std::int64_t first_row, std::int64_t last_row,
                          std::int64_t column) {
  constexpr int rows = rows_at_once(pass);
  const LowRankJob& job = part.job;
  const Matrix& matrix = job.matrix;
  const std::int64_t columns = matrix.columns - column;
  const bool keeps = pass != Pass::expand && matrix.next.values != nullptr;
  if (pass == Pass::keep && !keeps) return;
  std::int64_t row[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) row[r] = lesser(first_row + r, last_row);
  Sums<rows> a{}, mine{}, mean{};
  if (keeps) {
#pragma unroll
    for (int r = 0; r < rows; ++r) load_both<side_by_side>(matrix, row[r], column, a[r]);
  }
  const Factors of_mine = factors(job, job.mine);
  const Factors of_mean = factors(job, job.mean);
  for (int k = 0; k < job.rank; ++k) {
    float right[columns_a_thread];
    if (keeps) {
      load<side_by_side, Cache::shared>(of_mine.right + k * matrix.columns + column, columns, right);
      add_product(of_mine.left + k * matrix.rows, row, right, mine);
    }
    if (pass == Pass::keep) continue;
    if (!keeps || of_mean.right != of_mine.right)
      load<side_by_side, Cache::shared>(of_mean.right + k * matrix.columns + column, columns, right);
    add_product(of_mean.left + k * matrix.rows, row, right, mean);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const bool is_there = first_row + r <= last_row;
    if (keeps) {
#pragma unroll
      for (int q = 0; q < columns_a_thread; ++q) {
        const float lost = __fsub_rn(a[r][q], mine[r][q]);
        a[r][q] = fmaxf(fminf(lost, largest_residual), -largest_residual);
      }
      keep<side_by_side>(matrix, row[r], column, is_there, a[r]);
    }
    const std::int64_t at = row[r] * matrix.columns + column;
    if (pass == Pass::keep || !is_there) continue;
    if (pass == Pass::rebuild) {
      store<side_by_side>(matrix.values + at, columns, mean[r]);
    } else {
      store_part<side_by_side>(part, at, columns, mean[r]);
    }
  }
}

constexpr std::int64_t first_row_of(const LowRankPart& part) {
  return part.begin / part.job.matrix.columns;
}
constexpr std::int64_t last_row_of(const LowRankPart& part) {
  return (part.end - 1) / part.job.matrix.columns;
}

template <Pass pass>
__global__ void __launch_bounds__(threads, blocks_at_once)
    rebuild_kernel(const __grid_constant__ Table<LowRankPart> table) {
  const Share share = share_of(table);
  const LowRankPart& part = table.items[share.item];
  const LowRankJob& job = part.job;
  const Matrix& matrix = job.matrix;
  const std::int64_t blocks = blocks_of(matrix.columns);
  const std::int64_t column = share.block % blocks * residual_block;
  const std::int64_t last_row = last_row_of(part);
  const std::int64_t begin =
      first_row_of(part) + share.block / blocks * rows_a_block + threadIdx.x / 32 * rows_a_warp;
  const bool side_by_side = matrix.columns % 4 == 0 && aligned(matrix.values) &&
                            aligned(matrix.kept.values) && aligned(matrix.next.values) &&
                            aligned(factors(job, job.mine).right) && aligned(factors(job, job.mean).right);
  for (std::int64_t row = begin; row < begin + rows_a_warp && row <= last_row; row += rows_at_once(pass)) {
    if (side_by_side) {
      take_rows<pass, true>(part, row, last_row, column);
    } else {
      take_rows<pass, false>(part, row, last_row, column);
    }
  }
}

template <Pass pass>
cudaError_t run(std::span<const LowRankPart> parts, cudaStream_t stream) {
  const auto blocks = [](const LowRankPart& part) -> std::int64_t {
    if (part.begin >= part.end) return 0;
    const std::int64_t rows = last_row_of(part) - first_row_of(part) + 1;
    return (rows + rows_a_block - 1) / rows_a_block * blocks_of(part.job.matrix.columns);
  };
  return for_each_table(parts, blocks, [&](const Table<LowRankPart>& table, std::uint32_t all) {
    return launch(rebuild_kernel<pass>, all, threads, stream, table);
  });
}

}  // namespace

cudaError_t rebuild(std::span<const LowRankPart> parts, cudaStream_t stream) {
  return run<Pass::rebuild>(parts, stream);
}
cudaError_t keep_residuals(std::span<const LowRankPart> parts, cudaStream_t stream) {
  return run<Pass::keep>(parts, stream);
}
cudaError_t expand(std::span<const LowRankPart> parts, cudaStream_t stream) {
  return run<Pass::expand>(parts, stream);
}

}  // namespace weft::detail::cuda::kernels
