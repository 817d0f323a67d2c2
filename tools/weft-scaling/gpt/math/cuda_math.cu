// Math on a CUDA device: cuBLAS for products, one kernel for each other function. Sums have a fixed order, so
// the same run gives the same bits.

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "core/cuda/launch.cuh"
#include "weft-scaling/gpt/math/math.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::examples {
namespace {

constexpr int threads = 256;
constexpr int row_threads = 128;  // threads of the block that processes a row
constexpr int warp = 32;

void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess)
    throw Error(ErrorKind::system, text(what, ": CUDA: ", cudaGetErrorString(code)), "dmesg may say more");
}

void check(cublasStatus_t code, const char* what) {
  if (code != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorKind::system, text(what, ": cuBLAS: ", cublasGetStatusString(code)));
}

__device__ std::int64_t first_element() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::int64_t next_element() {
  return std::int64_t{blockDim.x} * gridDim.x;
}

/// function(i) for every i below count.
template <class Function>
__global__ void for_each_kernel(std::int64_t count, Function function) {
  for (std::int64_t i = first_element(); i < count; i += next_element()) function(i);
}

/// Joins the values of all threads of a block; every thread gets the result. In the same order every time.
template <class Real, class Join>
__device__ Real join_block(Real value, Join join) {
  __shared__ Real of_warps[warp];
  for (int distance = warp / 2; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(0xffffffffU, value, distance));
  __syncthreads();  // the results of the call before have been read
  if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = value;
  __syncthreads();
  value = of_warps[0];
  for (unsigned other = 1; other < blockDim.x / warp; ++other) value = join(value, of_warps[other]);
  return value;
}

template <class Real>
__device__ Real block_sum(Real value) {
  return join_block(value, [](Real a, Real b) { return a + b; });
}
template <class Real>
__device__ Real block_max(Real value) {
  return join_block(value, [](Real a, Real b) { return a > b ? a : b; });
}

template <class Real>
__global__ void norm_kernel(const Real* x, const Real* gain, const Real* bias, Real* normalized, Real* scales,
                            Real* y, int width) {
  const std::int64_t at = std::int64_t{blockIdx.x} * width;
  Real sum = 0;
  for (int j = threadIdx.x; j < width; j += blockDim.x) sum += x[at + j];
  const Real mean = block_sum(sum) / static_cast<Real>(width);
  Real squares = 0;
  for (int j = threadIdx.x; j < width; j += blockDim.x) squares += (x[at + j] - mean) * (x[at + j] - mean);
  const Real variance = block_sum(squares) / static_cast<Real>(width);
  const Real scale = Real{1} / sqrt(variance + static_cast<Real>(1e-5));
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int j = threadIdx.x; j < width; j += blockDim.x) {
    const Real normal = (x[at + j] - mean) * scale;
    normalized[at + j] = normal;
    y[at + j] = normal * gain[j] + bias[j];
  }
}

template <class Real>
__global__ void norm_input_kernel(const Real* dy, const Real* gain, const Real* normalized,
                                  const Real* scales, const Real* through, Real* dx, int width) {
  const std::int64_t at = std::int64_t{blockIdx.x} * width;
  Real sum = 0;
  Real along = 0;
  for (int j = threadIdx.x; j < width; j += blockDim.x) {
    const Real up = dy[at + j] * gain[j];
    sum += up;
    along += up * normalized[at + j];
  }
  const Real mean = block_sum(sum) / static_cast<Real>(width);
  const Real slope = block_sum(along) / static_cast<Real>(width);
  for (int j = threadIdx.x; j < width; j += blockDim.x) {
    const Real down = scales[blockIdx.x] * (dy[at + j] * gain[j] - mean - normalized[at + j] * slope);
    dx[at + j] = through == nullptr ? down : down + through[at + j];
  }
}

// A block sums 32 columns, each in 16 parts.
constexpr int column_parts = 16;

/// sum[j] = sum over rows i of element(i * width + j)
template <class Real, class Element>
__global__ void sum_columns_kernel(Element element, Real* sum, int rows, int width) {
  __shared__ Real parts[column_parts][warp];
  const int j = static_cast<int>(blockIdx.x) * warp + static_cast<int>(threadIdx.x);
  Real mine = 0;
  for (int i = threadIdx.y; i < rows && j < width; i += column_parts)
    mine += element(std::int64_t{i} * width + j);
  parts[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.y > 0 || j >= width) return;
  for (int part = 1; part < column_parts; ++part) mine += parts[part][threadIdx.x];
  sum[j] = mine;
}

/// Block v sums the rows whose token is v.
template <class Real>
__global__ void embed_tokens_kernel(const std::uint8_t* tokens, const Real* dx, Real* dtable, int rows,
                                    int width) {
  for (int j = threadIdx.x; j < width; j += blockDim.x) {
    Real sum = 0;
    for (int i = 0; i < rows; ++i) {
      if (tokens[i] == blockIdx.x) sum += dx[std::int64_t{i} * width + j];
    }
    dtable[std::int64_t{blockIdx.x} * width + j] = sum;
  }
}

template <class Real>
__global__ void causal_softmax_kernel(Real* scores, int context) {
  Real* row = scores + std::int64_t{blockIdx.x} * context;
  const int seen = static_cast<int>(blockIdx.x) % context + 1;
  Real top = row[0];
  for (int j = threadIdx.x; j < seen; j += blockDim.x) top = row[j] > top ? row[j] : top;
  top = block_max(top);
  Real sum = 0;
  for (int j = threadIdx.x; j < seen; j += blockDim.x) sum += row[j] = exp(row[j] - top);
  const Real scale = Real{1} / block_sum(sum);
  for (int j = threadIdx.x; j < context; j += blockDim.x) row[j] = j < seen ? row[j] * scale : Real{0};
}

template <class Real>
__global__ void causal_softmax_backward_kernel(const Real* probabilities, Real* gradient, int context) {
  const Real* p = probabilities + std::int64_t{blockIdx.x} * context;
  Real* g = gradient + std::int64_t{blockIdx.x} * context;
  const int seen = static_cast<int>(blockIdx.x) % context + 1;
  Real sum = 0;
  for (int j = threadIdx.x; j < seen; j += blockDim.x) sum += p[j] * g[j];
  const Real mean = block_sum(sum);
  for (int j = threadIdx.x; j < context; j += blockDim.x) g[j] = j < seen ? p[j] * (g[j] - mean) : Real{0};
}

template <class Real>
__global__ void cross_entropy_kernel(Real* logits, const std::uint8_t* targets, double* losses, Real share,
                                     int classes, int stride) {
  Real* row = logits + std::int64_t{blockIdx.x} * stride;
  const int target = targets[blockIdx.x];
  Real top = row[0];
  for (int j = threadIdx.x; j < classes; j += blockDim.x) top = row[j] > top ? row[j] : top;
  top = block_max(top);
  const Real right = row[target] - top;
  __syncthreads();  // before any thread changes the memory that `right` was read from
  Real sum = 0;
  for (int j = threadIdx.x; j < classes; j += blockDim.x) sum += row[j] = exp(row[j] - top);
  sum = block_sum(sum);
  if (threadIdx.x == 0) losses[blockIdx.x] = log(static_cast<double>(sum)) - static_cast<double>(right);
  const Real scale = share / sum;
  for (int j = threadIdx.x; j < stride; j += blockDim.x)
    row[j] = j < classes ? row[j] * scale - (j == target ? share : Real{0}) : Real{0};
}

/// One block: losses[0] = their sum.
__global__ void sum_losses_kernel(double* losses, int rows) {
  double sum = 0;
  for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += losses[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) losses[0] = sum;
}

cublasOperation_t to_cublas(Op op) {
  return op == Op::plain ? CUBLAS_OP_N : CUBLAS_OP_T;
}

// Row major is column major of the transposed: c^T = op(b)^T op(a)^T, so the operands change places.
cublasStatus_t gemm(cublasHandle_t handle, const Product<float>& p) {
  return cublasSgemmStridedBatched(handle, to_cublas(p.op_b), to_cublas(p.op_a), p.n, p.m, p.k, &p.alpha, p.b,
                                   p.ldb, p.stride_b, p.a, p.lda, p.stride_a, &p.beta, p.c, p.ldc, p.stride_c,
                                   p.count);
}
cublasStatus_t gemm(cublasHandle_t handle, const Product<double>& p) {
  return cublasDgemmStridedBatched(handle, to_cublas(p.op_b), to_cublas(p.op_a), p.n, p.m, p.k, &p.alpha, p.b,
                                   p.ldb, p.stride_b, p.a, p.lda, p.stride_a, &p.beta, p.c, p.ldc, p.stride_c,
                                   p.count);
}

template <class Real>
class CudaMath final : public Math<Real> {
 public:
  explicit CudaMath(const Stream& stream) : stream_(stream) {
    // Launches use the current device of the thread; a Math is used by the thread that made it.
    check(cudaSetDevice(device().index()), "cannot use the device");
    check(cublasCreate(&blas_), "cannot start");
    check(cublasSetStream(blas_, native_handle(stream_)), "cannot use the stream");
  }
  ~CudaMath() override { cublasDestroy(blas_); }

  Device device() const override { return stream_.device(); }

  void put(std::span<const Real> from, Real* to) override { copy(to, from.data(), from.size_bytes()); }
  void get(const Real* from, std::span<Real> to) override { copy(to.data(), from, to.size_bytes()); }
  void put_bytes(std::span<const std::uint8_t> from, const Buffer& to) override {
    // The memory is pageable: CUDA has copied the bytes when this returns.
    check(cudaMemcpyAsync(const_cast<void*>(to.view().data()), from.data(), from.size(),
                          cudaMemcpyHostToDevice, native()),
          "cannot copy");
  }

  void product(const Product<Real>& product) override {
    native();
    check(gemm(blas_, product), "product");
  }

  void copy_row(const Real* row, Real* y, int rows, int width) override {
    for_each(std::int64_t{rows} * width, [=] __device__(std::int64_t i) { y[i] = row[i % width]; });
  }
  void add_row(const Real* row, Real* y, int rows, int width) override {
    for_each(std::int64_t{rows} * width, [=] __device__(std::int64_t i) { y[i] += row[i % width]; });
  }
  void sum_rows(const Real* x, Real* sum, int rows, int width) override {
    sum_columns([=] __device__(std::int64_t i) { return x[i]; }, sum, rows, width);
  }

  void norm(const Real* x, const Real* gain, const Real* bias, Real* normalized, Real* scale, Real* y,
            int rows, int width) override {
    run("norm", norm_kernel<Real>, blocks(rows), row_threads, x, gain, bias, normalized, scale, y, width);
  }
  void norm_input(const Real* dy, const Real* gain, const Real* normalized, const Real* scale,
                  const Real* through, Real* dx, int rows, int width) override {
    run("norm_input", norm_input_kernel<Real>, blocks(rows), row_threads, dy, gain, normalized, scale,
        through, dx, width);
  }
  void norm_gain(const Real* dy, const Real* normalized, Real* dgain, int rows, int width) override {
    sum_columns([=] __device__(std::int64_t i) { return dy[i] * normalized[i]; }, dgain, rows, width);
  }

  void embed(const std::uint8_t* tokens, const Real* table, const Real* positions, Real* x, int sequences,
             int context, int width) override {
    for_each(std::int64_t{sequences} * context * width, [=] __device__(std::int64_t i) {
      const std::int64_t row = i / width;
      const std::int64_t j = i % width;
      x[i] = table[tokens[row] * std::int64_t{width} + j] + positions[row % context * width + j];
    });
  }
  void embed_positions(const Real* dx, Real* dpositions, int sequences, int context, int width) override {
    const std::int64_t one = std::int64_t{context} * width;
    for_each(one, [=] __device__(std::int64_t i) {
      Real sum = 0;
      for (int s = 0; s < sequences; ++s) sum += dx[s * one + i];
      dpositions[i] = sum;
    });
  }
  void embed_tokens(const std::uint8_t* tokens, const Real* dx, Real* dtable, int vocabulary, int rows,
                    int width) override {
    run("embed_tokens", embed_tokens_kernel<Real>, blocks(vocabulary), threads, tokens, dx, dtable, rows,
        width);
  }
  void standardize(const std::uint8_t* bytes, Real* x, std::int64_t count, double mean,
                   double deviation) override {
    for_each(count,
             [=] __device__(std::int64_t i) { x[i] = static_cast<Real>((bytes[i] - mean) / deviation); });
  }

  void gelu(Real* x_to_slope, Real* y, std::int64_t count) override {
    for_each(count, [=] __device__(std::int64_t i) {
      constexpr auto twice = static_cast<Real>(1.5957691216057308);  // 2 sqrt(2 / pi)
      constexpr auto cubic = static_cast<Real>(0.044715);
      const Real x = x_to_slope[i];
      const Real square = cubic * x * x;
      const Real sigmoid = Real{1} / (Real{1} + exp(-twice * x * (Real{1} + square)));
      const Real result = x * sigmoid;
      y[i] = result;
      x_to_slope[i] = sigmoid + result * (Real{1} - sigmoid) * twice * (Real{1} + 3 * square);
    });
  }
  void multiply(const Real* slope, Real* dx, std::int64_t count) override {
    for_each(count, [=] __device__(std::int64_t i) { dx[i] *= slope[i]; });
  }
  void relu(Real* x, std::int64_t count) override {
    for_each(count, [=] __device__(std::int64_t i) { x[i] = x[i] > Real{0} ? x[i] : Real{0}; });
  }
  void relu_backward(const Real* y, Real* dx, std::int64_t count) override {
    for_each(count, [=] __device__(std::int64_t i) { dx[i] = y[i] > Real{0} ? dx[i] : Real{0}; });
  }
  void add(const Real* x, Real* sum, std::int64_t count) override {
    for_each(count, [=] __device__(std::int64_t i) { sum[i] += x[i]; });
  }

  void causal_softmax(Real* scores, int context, int matrices) override {
    run("causal_softmax", causal_softmax_kernel<Real>, blocks(matrices * context), row_threads, scores,
        context);
  }
  void causal_softmax_backward(const Real* probabilities, Real* gradient, int context,
                               int matrices) override {
    run("causal_softmax_backward", causal_softmax_backward_kernel<Real>, blocks(matrices * context),
        row_threads, probabilities, gradient, context);
  }

  double cross_entropy(Real* logits, const std::uint8_t* targets, int rows, int classes, int stride,
                       std::int64_t of_rows) override {
    if (losses_.count() < rows) losses_ = Buffer::on(device(), DataType::f64, rows);
    auto* losses = static_cast<double*>(losses_.view().data());
    run("cross_entropy", cross_entropy_kernel<Real>, blocks(rows), row_threads, logits, targets, losses,
        Real{1} / static_cast<Real>(of_rows), classes, stride);
    run("sum_losses", sum_losses_kernel, 1, threads, losses, rows);
    double sum = 0;
    copy(&sum, losses, sizeof(sum));
    return sum / static_cast<double>(of_rows);
  }

 private:
  /// The stream to launch on, after all earlier submissions to it have been passed to CUDA.
  cudaStream_t native() {
    for (Backoff backoff; !stream_.poll(); backoff.pause()) {
    }
    return native_handle(stream_);
  }

  static unsigned blocks(std::int64_t count) { return static_cast<unsigned>(count); }
  template <class... Parameters>
  void run(const char* name, void (*kernel)(Parameters...), dim3 blocks, dim3 threads_of_block,
           const std::type_identity_t<Parameters>&... arguments) {
    check(detail::cuda::launch(kernel, blocks, threads_of_block, native(), arguments...), name);
  }

  template <class Function>
  void for_each(std::int64_t count, Function function) {
    if (count == 0) return;
    const auto most = static_cast<std::int64_t>(4096);
    run("for_each", for_each_kernel<Function>, blocks(std::min(most, (count + threads - 1) / threads)),
        threads, count, function);
  }
  template <class Element>
  void sum_columns(Element element, Real* sum, int rows, int width) {
    run("sum_columns", sum_columns_kernel<Real, Element>, blocks((width + warp - 1) / warp),
        dim3(warp, column_parts), element, sum, rows, width);
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native()), "cannot copy");
    check(cudaStreamSynchronize(native()), "work of the model failed");
  }

  Stream stream_;
  cublasHandle_t blas_ = nullptr;
  Buffer losses_;
};

}  // namespace

template <class Real>
std::unique_ptr<Math<Real>> make_cuda_math(const Stream& stream) {
  return std::make_unique<CudaMath<Real>>(stream);
}

template std::unique_ptr<Math<float>> make_cuda_math(const Stream&);
template std::unique_ptr<Math<double>> make_cuda_math(const Stream&);

}  // namespace weft::examples
