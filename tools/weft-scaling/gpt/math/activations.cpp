// The part of Math on the host that needs exponentials. The loops must vectorize.

#include <algorithm>
#include <cmath>

#include "weft-scaling/gpt/math/host_math.hpp"
#include "weft-scaling/gpt/math/numeric.hpp"

namespace weft::examples {

template <class Real>
void HostMath<Real>::gelu(Real* x_to_slope, Real* y, std::int64_t count) {
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
void HostMath<Real>::causal_softmax(Real* scores, int context, int matrices) {
  Real* row = scores;
  for (int matrix = 0; matrix < matrices; ++matrix) {
    for (int t = 0; t < context; ++t, row += context) {
      const int seen = t + 1;
      const Real top = lane_max<Real>(seen, [&](std::int64_t j) { return row[j]; });
      for (int j = 0; j < seen; ++j) row[j] = exponential(row[j] - top);
      const Real scale = Real{1} / lane_sum<Real>(seen, [&](std::int64_t j) { return row[j]; });
      for (int j = 0; j < seen; ++j) row[j] *= scale;
      std::fill(row + seen, row + context, Real{0});
    }
  }
}

template <class Real>
void HostMath<Real>::causal_softmax_backward(const Real* probabilities, Real* gradient, int context,
                                             int matrices) {
  for (std::int64_t i = 0; i < std::int64_t{matrices} * context; ++i) {
    const Real* __restrict p = probabilities + i * context;
    Real* __restrict g = gradient + i * context;
    const auto seen = static_cast<int>(i % context) + 1;
    const Real mean = lane_sum<Real>(seen, [&](std::int64_t j) { return p[j] * g[j]; });
    for (int j = 0; j < seen; ++j) g[j] = p[j] * (g[j] - mean);
    std::fill(g + seen, g + context, Real{0});
  }
}

template <class Real>
double HostMath<Real>::cross_entropy(Real* logits_to_gradient, const std::uint8_t* targets, int rows,
                                     int classes, int stride, std::int64_t of_rows) {
  const auto share = Real{1} / static_cast<Real>(of_rows);
  double loss = 0;
  Real* row = logits_to_gradient;
  for (int i = 0; i < rows; ++i, row += stride) {
    const std::uint8_t target = targets[i];
    const Real top = lane_max<Real>(classes, [&](std::int64_t j) { return row[j]; });
    const Real right = row[target] - top;
    for (int j = 0; j < classes; ++j) row[j] = exponential(row[j] - top);
    const Real sum = lane_sum<Real>(classes, [&](std::int64_t j) { return row[j]; });
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(right);
    const Real scale = share / sum;
    for (int j = 0; j < classes; ++j) row[j] *= scale;
    row[target] -= share;
    std::fill(row + classes, row + stride, Real{0});
  }
  return loss / static_cast<double>(of_rows);
}

#define WEFT_INSTANTIATE(Real)                                                         \
  template void HostMath<Real>::gelu(Real*, Real*, std::int64_t);                      \
  template void HostMath<Real>::causal_softmax(Real*, int, int);                       \
  template void HostMath<Real>::causal_softmax_backward(const Real*, Real*, int, int); \
  template double HostMath<Real>::cross_entropy(Real*, const std::uint8_t*, int, int, int, std::int64_t);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
#undef WEFT_INSTANTIATE

}  // namespace weft::examples
