// The element-wise half of layers.hpp: no parameters, no BLAS, loops that have to vectorize.

#include <algorithm>
#include <cmath>

#include "layers.hpp"
#include "numeric.hpp"

namespace weft::examples {

template <class Real>
void gelu(Real* x_to_slope, Real* y, std::int64_t count) {
  // x/2 (1 + tanh u) = x / (1 + e^-2u): one exponential, and the slope follows from the same sigmoid.
  constexpr auto twice = static_cast<Real>(1.5957691216057308);  // 2 sqrt(2 / pi)
  constexpr auto cubic = static_cast<Real>(0.044715);
  Real* __restrict in = x_to_slope;
  Real* __restrict out = y;
  for (std::int64_t i = 0; i < count; ++i) {
    const Real x = in[i];
    const Real square = cubic * x * x;
    const Real sigmoid = Real{1} / (Real{1} + exponential(-twice * x * (Real{1} + square)));
    const Real result = x * sigmoid;
    out[i] = result;
    in[i] = sigmoid + result * (Real{1} - sigmoid) * twice * (Real{1} + 3 * square);
  }
}

template <class Real>
void multiply(const Real* slope, Real* dx, std::int64_t count) {
  const Real* __restrict factor = slope;
  Real* __restrict product = dx;
  for (std::int64_t i = 0; i < count; ++i) product[i] *= factor[i];
}

template <class Real>
void relu(Real* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] > Real{0} ? x[i] : Real{0};
}

template <class Real>
void relu_backward(const Real* y, Real* dx, std::int64_t count) {
  const Real* __restrict out = y;
  Real* __restrict down = dx;
  for (std::int64_t i = 0; i < count; ++i) down[i] = out[i] > Real{0} ? down[i] : Real{0};
}

template <class Real>
double cross_entropy(Real* logits_to_gradient, const std::vector<std::uint8_t>& targets, int classes,
                     int stride) {
  const auto share = Real{1} / static_cast<Real>(targets.size());
  double loss = 0;
  Real* row = logits_to_gradient;
  for (const std::uint8_t target : targets) {
    const Real top = lane_max<Real>(classes, [&](std::int64_t j) { return row[j]; });
    const Real right = row[target] - top;
    for (int j = 0; j < classes; ++j) row[j] = exponential(row[j] - top);
    const Real sum = lane_sum<Real>(classes, [&](std::int64_t j) { return row[j]; });
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(right);
    const Real scale = share / sum;
    for (int j = 0; j < classes; ++j) row[j] *= scale;
    row[target] -= share;
    std::fill(row + classes, row + stride, Real{0});
    row += stride;
  }
  return loss / static_cast<double>(targets.size());
}

template void gelu(float*, float*, std::int64_t);
template void gelu(double*, double*, std::int64_t);
template void multiply(const float*, float*, std::int64_t);
template void multiply(const double*, double*, std::int64_t);
template void relu(float*, std::int64_t);
template void relu(double*, std::int64_t);
template void relu_backward(const float*, float*, std::int64_t);
template void relu_backward(const double*, double*, std::int64_t);
template double cross_entropy(float*, const std::vector<std::uint8_t>&, int, int);
template double cross_entropy(double*, const std::vector<std::uint8_t>&, int, int);

}  // namespace weft::examples
