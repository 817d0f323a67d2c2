#pragma once
// Newton and Schulz's iteration with Muon's coefficients, which moves all singular values of a matrix close to 1
// (Jordan et al. 2024):
//
//   x = u / (|u| + 1e-7)
//   steps times:  A = x x^T,  B = b A + c A A,  x = a x + B x      a, b, c = 3.4445, -4.7750, 2.0315
//
// Where there are more rows than columns it is the same from the other side: A = x^T x, x = a x + x B. A and B are
// symmetric, and half of each is multiplied (ssyrk): 3 m^2 n + m^3 operations a step instead of 4 m^2 n + 2 m^3 for the
// shorter side m. The other product is sgemm. Both are OpenBLAS's, loaded at the first use, with the threads that it has. A matrix is multiplied in one way whichever
// rank has it, so its bits depend on the library, its kernels for this processor and its number of threads alone.

#include <cstdint>
#include <span>
#include <string>

namespace weft::detail {

struct NewtonSchulz {
  int steps = 5;
  bool bf16_products = false;  ///< x, A and B are rounded to bf16
};

/// f32 elements that orthogonalize() works in: 2 m n + 2 m^2, where m is the shorter side.
std::int64_t newton_schulz_workspace(std::int64_t rows, std::int64_t columns);

/// In place, row-major. @param workspace of newton_schulz_workspace() elements or more
/// @throws Error (usage) as load_blas()
void orthogonalize(std::span<float> matrix, std::int64_t rows, std::int64_t columns, const NewtonSchulz& how,
                   std::span<float> workspace);

/// C (m x n) = alpha op(A) op(B) + beta C, row-major, where op(A) has k columns.
struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  float alpha = 1;
  float beta = 0;
};
void multiply(const Product& product, const float* a, const float* b, float* c);

/// Loads the library, so that it is not missed in the first step. @param library_file another, for tests
/// @throws Error (usage) naming the library and the package to install
void load_blas(const std::string& library_file = "libopenblas.so.0");

}  // namespace weft::detail
