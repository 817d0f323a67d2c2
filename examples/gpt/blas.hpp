#pragma once
// The two BLAS calls of the example models, overloaded for float and double, on one thread.
//
// All matrices are row major; `Op` says whether an operand is used as it lies or transposed. OpenBLAS starts
// one thread per core unless told otherwise; where every core already has a rank, its pool makes each product
// wait for threads that are not running. `use_one_blas_thread` switches the pool off for the whole process;
// the models' factory calls it. Safe to call from any thread; products of different threads do not disturb
// each other.
//
//   use_one_blas_thread();
//   gemm(Op::plain, Op::transposed, rows, outputs, inputs, 1.0F, x, inputs, weight, inputs, 0.0F, y,
//   outputs);

#include <cblas.h>

#include <mutex>

#include "math.hpp"

extern "C" void openblas_set_num_threads(int threads);  // not every cblas.h declares it

namespace weft::examples {

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

}  // namespace weft::examples
