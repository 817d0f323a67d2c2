#include "attention.hpp"

#include <algorithm>
#include <cmath>

#include "blas.hpp"
#include "numeric.hpp"

namespace weft::examples {

namespace {

/// Row t of the scores sees columns 0..t only; the rest become 0, so that full products may be taken over
/// them.
template <class Real>
void causal_softmax(Real* scores, int context) {
  for (int t = 0; t < context; ++t) {
    Real* row = scores + static_cast<std::int64_t>(t) * context;
    const int seen = t + 1;
    const Real top = lane_max<Real>(seen, [&](std::int64_t j) { return row[j]; });
    for (int j = 0; j < seen; ++j) row[j] = exponential(row[j] - top);
    const Real scale = Real{1} / lane_sum<Real>(seen, [&](std::int64_t j) { return row[j]; });
    for (int j = 0; j < seen; ++j) row[j] *= scale;
    std::fill(row + seen, row + context, Real{0});
  }
}

/// Gradient of the probabilities -> gradient of the scores, in place.
template <class Real>
void causal_softmax_backward(const Real* probabilities, Real* gradient, int context) {
  for (int t = 0; t < context; ++t) {
    const Real* __restrict p = probabilities + static_cast<std::int64_t>(t) * context;
    Real* __restrict g = gradient + static_cast<std::int64_t>(t) * context;
    const int seen = t + 1;
    const Real mean = lane_sum<Real>(seen, [&](std::int64_t j) { return p[j] * g[j]; });
    for (int j = 0; j < seen; ++j) g[j] = p[j] * (g[j] - mean);
    std::fill(g + seen, g + context, Real{0});
  }
}

}  // namespace

template <class Real>
void Attention<Real>::forward(const Real* qkv, Real* probabilities, Real* out, int sequences) const {
  const int depth = width_ / heads_;
  const int stride = 3 * width_;
  const Real scale = Real{1} / std::sqrt(static_cast<Real>(depth));
  for (int s = 0; s < sequences; ++s) {
    for (int h = 0; h < heads_; ++h, probabilities += scratch()) {
      const std::int64_t first = static_cast<std::int64_t>(s) * context_;
      const Real* query = qkv + first * stride + h * depth;
      const Real* key = query + width_;
      const Real* value = key + width_;
      gemm(Op::plain, Op::transposed, context_, context_, depth, scale, query, stride, key, stride, Real{0},
           probabilities, context_);
      causal_softmax(probabilities, context_);
      gemm(Op::plain, Op::plain, context_, depth, context_, Real{1}, probabilities, context_, value, stride,
           Real{0}, out + first * width_ + h * depth, width_);
    }
  }
}

template <class Real>
void Attention<Real>::backward(const Real* qkv, const Real* probabilities, const Real* dout,
                               Real* scratch_scores, Real* dqkv, int sequences) const {
  const int depth = width_ / heads_;
  const int stride = 3 * width_;
  const Real scale = Real{1} / std::sqrt(static_cast<Real>(depth));
  for (int s = 0; s < sequences; ++s) {
    for (int h = 0; h < heads_; ++h, probabilities += scratch()) {
      const std::int64_t first = static_cast<std::int64_t>(s) * context_;
      const std::int64_t head = first * stride + h * depth;
      const Real* query = qkv + head;
      const Real* key = query + width_;
      const Real* value = key + width_;
      const Real* up = dout + first * width_ + h * depth;
      Real* dquery = dqkv + head;
      Real* dkey = dquery + width_;
      Real* dvalue = dkey + width_;
      gemm(Op::transposed, Op::plain, context_, depth, context_, Real{1}, probabilities, context_, up, width_,
           Real{0}, dvalue, stride);
      gemm(Op::plain, Op::transposed, context_, context_, depth, Real{1}, up, width_, value, stride, Real{0},
           scratch_scores, context_);
      causal_softmax_backward(probabilities, scratch_scores, context_);
      gemm(Op::plain, Op::plain, context_, depth, context_, scale, scratch_scores, context_, key, stride,
           Real{0}, dquery, stride);
      gemm(Op::transposed, Op::plain, context_, depth, context_, scale, scratch_scores, context_, query,
           stride, Real{0}, dkey, stride);
    }
  }
}

template class Attention<float>;
template class Attention<double>;

}  // namespace weft::examples
