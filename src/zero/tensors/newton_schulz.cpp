#include "zero/tensors/newton_schulz.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/shared_library.hpp"
#include "weft/core/dtype.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// The interface of CBLAS, whose enumerations are ints.
constexpr int row_major = 101;
constexpr int as_is = 111;
constexpr int transposed = 112;
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);

using Ssyrk = void (*)(int order, int triangle, int transpose, int n, int k, float alpha, const float* a,
                       int lda, float beta, float* c, int ldc);
constexpr int upper = 121;

struct Blas {
  Sgemm sgemm;
  Ssyrk ssyrk;
};

Blas blas_of(const std::string& library_file) {
  const SharedLibrary file(library_file, "Muon's products have no BLAS",
                           "install OpenBLAS (Debian: libopenblas0-pthread), or take another rule",
                           ErrorKind::usage);
  Blas blas{};
  file.require(blas.sgemm, "cblas_sgemm");
  file.require(blas.ssyrk, "cblas_ssyrk");
  return blas;
}

const Blas& blas() {
  static const Blas functions = blas_of("libopenblas.so.0");
  return functions;
}

/// C (m x m) = alpha op(A) op(A)^T + beta C, both triangles, where op(A) has k columns. Half the operations of a product.
struct Square {
  std::int64_t m = 0;
  std::int64_t k = 0;
  bool transposed = false;
  float alpha = 1;
  float beta = 0;
};
void multiply_by_own_transpose(const Square& by, const float* a, float* c) {
  const auto m = static_cast<int>(by.m);
  const auto k = static_cast<int>(by.k);
  blas().ssyrk(row_major, upper, by.transposed ? transposed : as_is, m, k, by.alpha, a, by.transposed ? m : k,
               by.beta, c, m);
  for (std::int64_t row = 1; row < by.m; ++row) {
    for (std::int64_t column = 0; column < row; ++column) c[row * by.m + column] = c[column * by.m + row];
  }
}

void round_to_bf16(std::span<float> values, const NewtonSchulz& how) {
  if (!how.bf16_products) return;
  for (float& value : values) value = static_cast<float>(BFloat16(value));
}

/// Divides by the L2 norm, which is summed in f64, row by row.
void normalize(std::span<float> x) {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const double norm = std::sqrt(squares) + 1e-7;
  for (float& value : x) value = static_cast<float>(static_cast<double>(value) / norm);
}

}  // namespace

void load_blas(const std::string& library_file) {
  (void)blas_of(library_file);
}

void multiply(const Product& by, const float* a, const float* b, float* c) {
  const auto m = static_cast<int>(by.m);
  const auto n = static_cast<int>(by.n);
  const auto k = static_cast<int>(by.k);
  blas().sgemm(row_major, by.a_transposed ? transposed : as_is, by.b_transposed ? transposed : as_is, m, n, k,
               by.alpha, a, by.a_transposed ? m : k, b, by.b_transposed ? k : n, by.beta, c, n);
}

std::int64_t newton_schulz_workspace(std::int64_t rows, std::int64_t columns) {
  const std::int64_t m = std::min(rows, columns);
  return 2 * rows * columns + 2 * m * m;
}

void orthogonalize(std::span<float> matrix, std::int64_t rows, std::int64_t columns, const NewtonSchulz& how,
                   std::span<float> workspace) {
  constexpr float a = 3.4445F;
  constexpr float b = -4.7750F;
  constexpr float c = 2.0315F;
  const bool is_wide = rows <= columns;
  const std::int64_t m = std::min(rows, columns);
  const std::int64_t n = std::max(rows, columns);
  const auto part = [&](std::int64_t at, std::int64_t count) {
    return workspace.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
  };
  std::span<float> x = part(0, m * n);
  std::span<float> next = part(m * n, m * n);
  const std::span<float> gram = part(2 * m * n, m * m);
  const std::span<float> polynomial = part(2 * m * n + m * m, m * m);
  std::ranges::copy(matrix, x.begin());
  normalize(x);
  round_to_bf16(x, how);
  for (int step = 0; step < how.steps; ++step) {
    multiply_by_own_transpose({.m = m, .k = n, .transposed = !is_wide}, x.data(), gram.data());
    round_to_bf16(gram, how);
    std::ranges::copy(gram, polynomial.begin());
    multiply_by_own_transpose({.m = m, .k = m, .alpha = c, .beta = b}, gram.data(), polynomial.data());
    round_to_bf16(polynomial, how);
    std::ranges::copy(x, next.begin());
    if (is_wide) {
      multiply({.m = m, .n = n, .k = m, .beta = a}, polynomial.data(), x.data(), next.data());
    } else {
      multiply({.m = n, .n = m, .k = m, .beta = a}, x.data(), polynomial.data(), next.data());
    }
    std::swap(x, next);
    round_to_bf16(x, how);
  }
  std::ranges::copy(x, matrix.begin());
}

}  // namespace weft::detail
