#pragma once
// The arithmetic of PowerSGD on one matrix in host memory: all of its passes over a gradient, and the
// orthonormalization of factors.
//
// A gradient M (rows x columns, row-major) and its residual E, what earlier steps did not send, are read
// together as A = M + E. A step makes three passes over A: the products A R and A^T L, and one pass that
// writes the mean's approximation and the new residual. A is never stored. Factors are stored by rank: L is
// rank x rows, R is rank x columns, and each vector is contiguous.
//
// A residual is stored as 16-bit integers with an exact power of two for every `residual_block` columns of a
// row. It is off by half a step, at most 2^-15 of the block's largest: finer than f16 for the large elements,
// and without f16's limits of range. It is clamped to `largest_residual`: otherwise one step of gradients
// near the end of f32's range would make the sums of all later steps overflow.
//
// All functions give the same bits on every machine, with vectors and without, because ranks decide by values
// that each computes itself. Products and sums are not fused. Sums are added in the order stated below; the
// sum over a row goes to partial sum (column % 16), and these are added by halves.

#include <cstdint>
#include <span>

#include "weft/core/recycled.hpp"

namespace weft::detail {

constexpr std::int64_t residual_block = 256;
constexpr int partial_sums = 16;
constexpr float largest_residual = 0x1p64F;
/// A factor counts as overflowed if it overflows when multiplied by this. So its product with a basis, a sum
/// of `rank` terms, stays finite.
constexpr float factor_headroom = 0x1p28F;

/// Has the shape of the gradient. Without values, no residual is kept. Without scales, the values are floats.
struct Residual {
  void* values = nullptr;
  float* scales = nullptr;  ///< rows x blocks_of(columns)
};

constexpr std::int64_t blocks_of(std::int64_t columns) {
  return (columns + residual_block - 1) / residual_block;
}

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float* values = nullptr;
  Residual kept{};  ///< what earlier steps left
  Residual next{};  ///< what this step leaves; not in the memory of `kept`
};

/// The product of L^T and R.
struct Factors {
  const float* left = nullptr;   ///< [rank, rows]
  const float* right = nullptr;  ///< [rank, columns]
  int rank = 0;
};

/// left[k][i] = sum over j of a[i][j] right[k][j]
void project(const Matrix& matrix, const float* right, int rank, float* left);
/// right[k][j] = sum over i, in order, of a[i][j] left[k][i]
void project_transposed(const Matrix& matrix, const float* left, int rank, float* right);
/// In one pass: next = a - product(mine), clamped to largest_residual; values = product(mean). Sums over k
/// are added in order.
void rebuild(const Matrix& matrix, const Factors& mine, const Factors& mean);
/// next = a - product(mine). Does nothing if no residual is kept.
void keep_residual(const Matrix& matrix, const Factors& mine);
/// values = product(mean) for elements [begin, end) of the matrix.
void expand(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end);

/// The same as plain loops: builds without Highway use them, and tests compare the vector loops with them.
namespace plain {
void project(const Matrix& matrix, const float* right, int rank, float* left);
void project_transposed(const Matrix& matrix, const float* left, int rank, float* right);
void rebuild(const Matrix& matrix, const Factors& mine, const Factors& mean);
void keep_residual(const Matrix& matrix, const Factors& mine);
void expand(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end);
}  // namespace plain

/// The step of a block of a residual: a power of two, so that `largest`, the block's largest magnitude, is
/// below 2^15 steps. `largest` is finite.
float residual_scale(float largest);

/// Makes the vectors of a factor orthonormal by Gram-Schmidt, twice. Sums are in f64 in one fixed order, with
/// the same bits on every rank and on a device: element i goes to partial sum i % 256, and these are added by
/// halves. `factor` is [rank, length]. A vector becomes zero if less than 2^-20 of it remains after the
/// vectors before it are projected out, for that may be nothing but rounding; all vectors of a dead layer do.
/// If a vector has NaN or Inf, all of the factor becomes NaN.
/// @returns the vectors that became zero
RecycledVector<int> orthonormalize(std::span<float> factor, int rank);

/// The seed of the k-th random vector of a tensor with this seed.
std::uint64_t vector_seed(std::uint64_t seed, int k);
/// Fills a vector with random numbers: one seed gives the same numbers on every rank and machine, none of
/// them zero.
void draw(std::span<float> vector, std::uint64_t seed);

}  // namespace weft::detail
