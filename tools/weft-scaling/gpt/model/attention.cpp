#include "weft-scaling/gpt/model/attention.hpp"

#include <cmath>

namespace weft::examples {

// The matrices of all heads of a sequence: each head takes the next `depth` columns of the rows, and the next
// matrix.
template <class Real>
void Attention<Real>::scores(Math<Real>& math, Real alpha, const Real* a, int lda, const Real* b, int ldb,
                             Real* matrices) const {
  math.product({.op_b = Op::transposed,
                .m = context_,
                .n = context_,
                .k = depth(),
                .alpha = alpha,
                .a = a,
                .lda = lda,
                .b = b,
                .ldb = ldb,
                .c = matrices,
                .ldc = context_,
                .count = heads_,
                .stride_a = depth(),
                .stride_b = depth(),
                .stride_c = matrix()});
}

template <class Real>
void Attention<Real>::mix(Math<Real>& math, Op op, Real alpha, const Real* matrices, const Real* rows, int ld,
                          Real* to, int ldto) const {
  math.product({.op_a = op,
                .m = context_,
                .n = depth(),
                .k = context_,
                .alpha = alpha,
                .a = matrices,
                .lda = context_,
                .b = rows,
                .ldb = ld,
                .c = to,
                .ldc = ldto,
                .count = heads_,
                .stride_a = matrix(),
                .stride_b = depth(),
                .stride_c = depth()});
}

template <class Real>
void Attention<Real>::forward(Math<Real>& math, const Real* qkv, Real* probabilities, Real* out,
                              int sequences) const {
  const int stride = 3 * width_;
  const Real scale = Real{1} / std::sqrt(static_cast<Real>(depth()));
  for (int s = 0; s < sequences; ++s, probabilities += scratch()) {
    const std::int64_t first = static_cast<std::int64_t>(s) * context_;
    const Real* query = qkv + first * stride;
    const Real* key = query + width_;
    const Real* value = key + width_;
    scores(math, scale, query, stride, key, stride, probabilities);
    math.causal_softmax(probabilities, context_, heads_);
    mix(math, Op::plain, Real{1}, probabilities, value, stride, out + first * width_, width_);
  }
}

template <class Real>
void Attention<Real>::backward(Math<Real>& math, const Real* qkv, const Real* probabilities, const Real* dout,
                               Real* dscores, Real* dqkv, int sequences) const {
  const int stride = 3 * width_;
  const Real scale = Real{1} / std::sqrt(static_cast<Real>(depth()));
  for (int s = 0; s < sequences; ++s, probabilities += scratch()) {
    const std::int64_t first = static_cast<std::int64_t>(s) * context_;
    const Real* query = qkv + first * stride;
    const Real* key = query + width_;
    const Real* value = key + width_;
    const Real* up = dout + first * width_;
    Real* dquery = dqkv + first * stride;
    Real* dkey = dquery + width_;
    Real* dvalue = dkey + width_;
    mix(math, Op::transposed, Real{1}, probabilities, up, width_, dvalue, stride);
    scores(math, Real{1}, up, width_, value, stride, dscores);
    math.causal_softmax_backward(probabilities, dscores, context_, heads_);
    mix(math, Op::plain, scale, dscores, key, stride, dquery, stride);
    mix(math, Op::transposed, scale, dscores, query, stride, dkey, stride);
  }
}

template class Attention<float>;
template class Attention<double>;

}  // namespace weft::examples
