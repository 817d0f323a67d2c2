#pragma once
// The BLAS call of the example models, for float and double, on one thread.
//
// All matrices are row major; `Op` says whether an operand is transposed. OpenBLAS by default starts one
// thread per core; if every core already has a rank, each product waits for threads that are not running.
// `use_one_blas_thread` switches the pool off for the whole process; the models' factory calls it. Safe to
// call from any thread; products of different threads do not disturb each other.
//
//   use_one_blas_thread();
//   gemm(Op::plain, Op::transposed, rows, outputs, inputs, 1.0F, x, inputs, weight, inputs,
//        0.0F, y, outputs);

#include "weft-scaling/gpt/math/math.hpp"

#if WEFT_HAS_BLAS
#include <cblas.h>

#include <mutex>

extern "C" void openblas_set_num_threads(int threads);  // not every cblas.h declares it
#else
#include <vector>
#endif

namespace weft::examples {

#if WEFT_HAS_BLAS

inline CBLAS_TRANSPOSE to_cblas(Op op) {
  return op == Op::plain ? CblasNoTrans : CblasTrans;
}

/// c[m, n] = alpha * op(a)[m, k] * op(b)[k, n] + beta * c; the ld are the lengths of the stored rows.
inline void gemm(Op op_a, Op op_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                 int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, to_cblas(op_a), to_cblas(op_b), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

inline void gemm(Op op_a, Op op_b, int m, int n, int k, double alpha, const double* a, int lda,
                 const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, to_cblas(op_a), to_cblas(op_b), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

inline void use_one_blas_thread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

#else  // loops that vectorize, slower, for machines that have a card instead of a BLAS

template <class Real>
void gemm(Op op_a, Op op_b, int m, int n, int k, Real alpha, const Real* a, int lda, const Real* b, int ldb,
          Real beta, Real* c, int ldc) {
  const auto at = [](Op op, const Real* matrix, int ld, std::int64_t row, std::int64_t column) {
    return op == Op::plain ? matrix[row * ld + column] : matrix[column * ld + row];
  };
  std::vector<Real> rows(static_cast<std::size_t>(k) * static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < n; ++j) rows[static_cast<std::size_t>(i * n + j)] = at(op_b, b, ldb, i, j);
  }
  for (std::int64_t i = 0; i < m; ++i) {
    Real* __restrict sum = c + i * ldc;
    for (int j = 0; j < n; ++j) sum[j] = beta == Real{0} ? Real{0} : beta * sum[j];
    for (std::int64_t l = 0; l < k; ++l) {
      const Real factor = alpha * at(op_a, a, lda, i, l);
      const Real* __restrict row = rows.data() + l * n;
      for (int j = 0; j < n; ++j) sum[j] += factor * row[j];
    }
  }
}

inline void use_one_blas_thread() {}

#endif

}  // namespace weft::examples
