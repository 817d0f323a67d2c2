// The loops of Math on the host. They must vectorize. Functions that need an exponential are in
// activations.cpp.

#include "weft-scaling/gpt/math/host_math.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weft-scaling/gpt/math/blas.hpp"
#include "weft-scaling/gpt/math/numeric.hpp"

namespace weft::examples {
namespace {

template <class Real>
void add(const Real* __restrict x, Real* __restrict sum, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += x[i];
}

}  // namespace

template <class Real>
void HostMath<Real>::put(std::span<const Real> from, Real* to) {
  std::ranges::copy(from, to);
}

template <class Real>
void HostMath<Real>::get(const Real* from, std::span<Real> to) {
  std::copy_n(from, to.size(), to.data());
}

template <class Real>
void HostMath<Real>::put_bytes(std::span<const std::uint8_t> from, const Buffer& to) {
  std::ranges::copy(from, to.as<std::uint8_t>().begin());
}

template <class Real>
void HostMath<Real>::product(const Product<Real>& p) {
  for (int i = 0; i < p.count; ++i) {
    gemm(p.op_a, p.op_b, p.m, p.n, p.k, p.alpha, p.a + i * p.stride_a, p.lda, p.b + i * p.stride_b, p.ldb,
         p.beta, p.c + i * p.stride_c, p.ldc);
  }
}

template <class Real>
void HostMath<Real>::copy_row(const Real* row, Real* y, int rows, int width) {
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(row, width, y + i * width);
}

template <class Real>
void HostMath<Real>::add_row(const Real* row, Real* y, int rows, int width) {
  for (std::int64_t i = 0; i < rows; ++i) examples::add(row, y + i * width, width);
}

template <class Real>
void HostMath<Real>::sum_rows(const Real* x, Real* sum, int rows, int width) {
  std::fill_n(sum, width, Real{0});
  for (std::int64_t i = 0; i < rows; ++i) examples::add(x + i * width, sum, width);
}

template <class Real>
void HostMath<Real>::norm(const Real* x, const Real* gain, const Real* bias, Real* normalized, Real* scales,
                          Real* y, int rows, int width) {
  const Real* __restrict by = gain;
  const Real* __restrict plus = bias;
  const auto elements = static_cast<Real>(width);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Real* __restrict in = x + i * width;
    Real* __restrict normal = normalized + i * width;
    Real* __restrict out = y + i * width;
    const Real mean = lane_sum<Real>(width, [&](std::int64_t j) { return in[j]; }) / elements;
    const Real variance =
        lane_sum<Real>(width, [&](std::int64_t j) { return (in[j] - mean) * (in[j] - mean); }) / elements;
    const Real scale = Real{1} / std::sqrt(variance + static_cast<Real>(1e-5));
    scales[i] = scale;
    for (int j = 0; j < width; ++j) {
      normal[j] = (in[j] - mean) * scale;
      out[j] = normal[j] * by[j] + plus[j];
    }
  }
}

template <class Real>
void HostMath<Real>::norm_input(const Real* dy, const Real* gain, const Real* normalized, const Real* scales,
                                const Real* through, Real* dx, int rows, int width) {
  const Real* __restrict by = gain;
  const auto elements = static_cast<Real>(width);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Real* __restrict up = dy + i * width;
    const Real* __restrict normal = normalized + i * width;
    Real* __restrict down = dx + i * width;
    const Real mean = lane_sum<Real>(width, [&](std::int64_t j) { return up[j] * by[j]; }) / elements;
    const Real slope =
        lane_sum<Real>(width, [&](std::int64_t j) { return up[j] * by[j] * normal[j]; }) / elements;
    const Real scale = scales[i];
    for (int j = 0; j < width; ++j) down[j] = scale * (up[j] * by[j] - mean - normal[j] * slope);
    if (through != nullptr) examples::add(through + i * width, down, width);
  }
}

template <class Real>
void HostMath<Real>::norm_gain(const Real* dy, const Real* normalized, Real* dgain, int rows, int width) {
  Real* __restrict sum = dgain;
  std::fill_n(sum, width, Real{0});
  for (std::int64_t i = 0; i < rows; ++i) {
    const Real* __restrict up = dy + i * width;
    const Real* __restrict normal = normalized + i * width;
    for (int j = 0; j < width; ++j) sum[j] += up[j] * normal[j];
  }
}

template <class Real>
void HostMath<Real>::embed(const std::uint8_t* tokens, const Real* table, const Real* positions, Real* x,
                           int sequences, int context, int width) {
  for (int s = 0; s < sequences; ++s) {
    for (std::int64_t t = 0; t < context; ++t, x += width) {
      std::copy_n(table + static_cast<std::int64_t>(*tokens++) * width, width, x);
      examples::add(positions + t * width, x, width);
    }
  }
}

template <class Real>
void HostMath<Real>::embed_positions(const Real* dx, Real* dpositions, int sequences, int context,
                                     int width) {
  std::fill_n(dpositions, static_cast<std::int64_t>(context) * width, Real{0});
  for (int s = 0; s < sequences; ++s) {
    for (std::int64_t t = 0; t < context; ++t, dx += width) examples::add(dx, dpositions + t * width, width);
  }
}

template <class Real>
void HostMath<Real>::embed_tokens(const std::uint8_t* tokens, const Real* dx, Real* dtable, int vocabulary,
                                  int rows, int width) {
  std::fill_n(dtable, static_cast<std::int64_t>(vocabulary) * width, Real{0});
  for (int i = 0; i < rows; ++i, dx += width)
    examples::add(dx, dtable + static_cast<std::int64_t>(tokens[i]) * width, width);
}

template <class Real>
void HostMath<Real>::standardize(const std::uint8_t* bytes, Real* x, std::int64_t count, double mean,
                                 double deviation) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = static_cast<Real>((bytes[i] - mean) / deviation);
}

template <class Real>
void HostMath<Real>::multiply(const Real* slope, Real* dx, std::int64_t count) {
  const Real* __restrict factor = slope;
  Real* __restrict product = dx;
  for (std::int64_t i = 0; i < count; ++i) product[i] *= factor[i];
}

template <class Real>
void HostMath<Real>::relu(Real* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] > Real{0} ? x[i] : Real{0};
}

template <class Real>
void HostMath<Real>::relu_backward(const Real* y, Real* dx, std::int64_t count) {
  const Real* __restrict out = y;
  Real* __restrict down = dx;
  for (std::int64_t i = 0; i < count; ++i) down[i] = out[i] > Real{0} ? down[i] : Real{0};
}

template <class Real>
void HostMath<Real>::add(const Real* x, Real* sum, std::int64_t count) {
  examples::add(x, sum, count);
}

template <class Real>
Math<Real>& host_math() {
  use_one_blas_thread();
  static HostMath<Real> math;
  return math;
}

template class HostMath<float>;
template class HostMath<double>;
template Math<float>& host_math<float>();
template Math<double>& host_math<double>();

#if !WEFT_EXAMPLES_CUDA
template <class Real>
std::unique_ptr<Math<Real>> make_cuda_math(const Stream&) {
  throw Error(ErrorKind::usage, "a model on a CUDA device, in a build without CUDA or cuBLAS",
              "build it where both are, or train on the host");
}
template std::unique_ptr<Math<float>> make_cuda_math(const Stream&);
template std::unique_ptr<Math<double>> make_cuda_math(const Stream&);
#endif

}  // namespace weft::examples
