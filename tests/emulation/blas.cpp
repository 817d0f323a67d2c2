// Stands in for cuBLAS: plain loops, on the stream. It refuses what cuBLAS refuses: leading dimensions that are too small, a handle without
// a stream's device.

#include <algorithm>
#include <vector>

#include "cublas_v2.h"

struct cublasContext {
  int device = 0;
  cudaStream_t stream = nullptr;
};

namespace {

template <class Real>
struct Gemm {
  cublasOperation_t op_a, op_b;
  int m, n, k;
  Real alpha;
  const Real* a;
  int lda;
  long long stride_a;
  const Real* b;
  int ldb;
  long long stride_b;
  Real beta;
  Real* c;
  int ldc;
  long long stride_c;
  int count;

  bool is_allowed() const {
    return m >= 0 && n >= 0 && k >= 0 && count >= 0 && lda >= std::max(1, op_a == CUBLAS_OP_N ? m : k) &&
           ldb >= std::max(1, op_b == CUBLAS_OP_N ? k : n) && ldc >= std::max(1, m);
  }

  void one(const Real* x, const Real* y, Real* z) const {
    std::vector<Real> columns;  // of op(a), one after another
    if (op_a == CUBLAS_OP_T) {
      columns.resize(static_cast<std::size_t>(m) * static_cast<std::size_t>(k));
      for (long long i = 0; i < m; ++i) {
        for (long long p = 0; p < k; ++p) columns[static_cast<std::size_t>(p * m + i)] = x[i * lda + p];
      }
      x = columns.data();
    }
    const long long step = op_a == CUBLAS_OP_T ? m : lda;
    std::vector<Real> sum(static_cast<std::size_t>(m));
    for (long long j = 0; j < n; ++j) {
      std::fill(sum.begin(), sum.end(), Real{0});
      for (long long p = 0; p < k; ++p) {
        const Real factor = op_b == CUBLAS_OP_N ? y[j * ldb + p] : y[p * ldb + j];
        const Real* column = x + p * step;
        for (long long i = 0; i < m; ++i) sum[static_cast<std::size_t>(i)] += factor * column[i];
      }
      Real* to = z + j * ldc;  // is not read where beta is 0
      for (long long i = 0; i < m; ++i)
        to[i] = alpha * sum[static_cast<std::size_t>(i)] + (beta == Real{0} ? Real{0} : beta * to[i]);
    }
  }

  static void all(void* data) {
    const auto* gemm = static_cast<Gemm*>(data);
    for (int i = 0; i < gemm->count; ++i)
      gemm->one(gemm->a + i * gemm->stride_a, gemm->b + i * gemm->stride_b, gemm->c + i * gemm->stride_c);
    delete gemm;
  }

  cublasStatus_t on(cublasHandle_t handle) const {
    int current = -1;
    cudaGetDevice(&current);
    if (handle == nullptr || current != handle->device) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_allowed()) return CUBLAS_STATUS_INVALID_VALUE;
    return cudaLaunchHostFunc(handle->stream, all, new Gemm(*this)) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
  }
};

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  cudaGetDevice(&(*handle)->device);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    default:
      return "the function failed to launch on the GPU";
  }
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k, const float* alpha,
                                         const float* a, int lda, long long stride_a, const float* b, int ldb,
                                         long long stride_b, const float* beta, float* c, int ldc,
                                         long long stride_c, int count) {
  return Gemm<float>{op_a, op_b, m,        n,     k, *alpha, a,        lda,  stride_a,
                     b,    ldb,  stride_b, *beta, c, ldc,    stride_c, count}
      .on(handle);
}
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k, const double* alpha,
                                         const double* a, int lda, long long stride_a, const double* b,
                                         int ldb, long long stride_b, const double* beta, double* c, int ldc,
                                         long long stride_c, int count) {
  return Gemm<double>{op_a, op_b, m,        n,     k, *alpha, a,        lda,  stride_a,
                      b,    ldb,  stride_b, *beta, c, ldc,    stride_c, count}
      .on(handle);
}

}  // extern "C"
