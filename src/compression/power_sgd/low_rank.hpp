#pragma once
// The arithmetic of PowerSGD on one matrix in host memory: what makes all of its passes over a gradient.
//
// A gradient M (rows x columns, row-major) and what earlier steps did not send, its residual E, are read
// together, as A = M + E, and never written together: two products A R and A^T L, and one pass that writes
// the mean's approximation and the new residual at once. Factors lie by rank: L is rank x rows, R is rank x
// columns, each vector contiguous.
//
// A residual is 16-bit integers with an exact power of two for every `residual_block` columns of a row. It is
// off by half a step, at most 2^-15 of the block's largest: finer than f16 where it matters, and without the
// limits of its range. Nothing beyond `largest_residual` is kept: a step of gradients near the end of f32's
// range would else make the sums of every later one overflow.
//
// The same bits on every machine, with vectors and without: ranks decide alike by what they compute apart.
// Nothing is fused, products are summed in the order said below, and the sum over a row goes to partial sum
// (column % 16), which are added by halves.

#include <cstdint>
#include <span>

#include "weft/core/recycled.hpp"

namespace weft::detail {

constexpr std::int64_t residual_block = 256;
constexpr int partial_sums = 16;
constexpr float largest_residual = 0x1p64F;
/// A factor that overflows times this overflowed: its product with a basis has sums of as many as the rank.
constexpr float factor_headroom = 0x1p28F;

/// By rows and columns as the gradient. No values: none is kept. No scales: the values are floats.
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
  Residual kept{};  ///< of the steps before
  Residual next{};  ///< of this step; another memory than `kept`
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
/// next = a - product(mine), within largest_residual; values = product(mean), in one pass; sums over k in
/// order.
void rebuild(const Matrix& matrix, const Factors& mine, const Factors& mean);
/// next = a - product(mine); nothing where none is kept.
void keep_residual(const Matrix& matrix, const Factors& mine);
/// values = product(mean) for elements [begin, end) of the matrix.
void expand(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end);

/// The same by plain loops: what the above is without Highway, and the twin that tests compare it with.
namespace plain {
void project(const Matrix& matrix, const float* right, int rank, float* left);
void project_transposed(const Matrix& matrix, const float* left, int rank, float* right);
void rebuild(const Matrix& matrix, const Factors& mine, const Factors& mean);
void keep_residual(const Matrix& matrix, const Factors& mine);
void expand(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end);
}  // namespace plain

/// A power of two by which 15 bits and a sign hold everything up to `largest`, which is finite.
float residual_scale(float largest);

/// Gram-Schmidt, twice, with sums in f64 in one fixed order: the same bits on every rank, and on a device.
/// Element i goes to partial sum i % 256, in turn, and those are added by halves. `factor` is [rank, length].
/// A vector of which the ones before it leave less than 2^-20 (what rounding to f32 leaves of nothing)
/// becomes zero, as all vectors of a dead layer do; NaN and Inf become NaN everywhere.
/// @returns the vectors that became zero
RecycledVector<int> orthonormalize(std::span<float> factor, int rank);

/// Of vector k among those that are drawn with a seed.
std::uint64_t vector_seed(std::uint64_t seed, int k);
/// The same vectors for the same seed, on every rank and machine; no vector is zero.
void draw(std::span<float> vector, std::uint64_t seed);

}  // namespace weft::detail
