#include "attention.hpp"

#include <cmath>

namespace weft::examples {

template <class Real>
void Attention<Real>::forward(Math<Real>& math, const Real* qkv, Real* probabilities, Real* out,
                              int sequences) const {
  const int depth = width_ / heads_;
  const int stride = 3 * width_;
  const Real scale = Real{1} / std::sqrt(static_cast<Real>(depth));
  for (int s = 0; s < sequences; ++s, probabilities += scratch()) {
    const std::int64_t first = static_cast<std::int64_t>(s) * context_;
    const Real* query = qkv + first * stride;
    const Real* key = query + width_;
    const Real* value = key + width_;
    // From head to head the next `depth` columns, and the next matrix of scores.
    math.product({.op_b = Op::transposed,
                  .m = context_,
                  .n = context_,
                  .k = depth,
                  .alpha = scale,
                  .a = query,
                  .lda = stride,
                  .b = key,
                  .ldb = stride,
                  .c = probabilities,
                  .ldc = context_,
                  .count = heads_,
                  .stride_a = depth,
                  .stride_b = depth,
                  .stride_c = matrix()});
    math.causal_softmax(probabilities, context_, heads_);
    math.product({.m = context_,
                  .n = depth,
                  .k = context_,
                  .a = probabilities,
                  .lda = context_,
                  .b = value,
                  .ldb = stride,
                  .c = out + first * width_,
                  .ldc = width_,
                  .count = heads_,
                  .stride_a = matrix(),
                  .stride_b = depth,
                  .stride_c = depth});
  }
}

template <class Real>
void Attention<Real>::backward(Math<Real>& math, const Real* qkv, const Real* probabilities, const Real* dout,
                               Real* scores, Real* dqkv, int sequences) const {
  const int depth = width_ / heads_;
  const int stride = 3 * width_;
  const Real scale = Real{1} / std::sqrt(static_cast<Real>(depth));
  /// [context, context] op [context, depth] -> [context, depth], of all heads.
  const auto mix = [&](Op op, Real alpha, const Real* matrix_of, const Real* rows, int row, Real* to) {
    math.product({.op_a = op,
                  .m = context_,
                  .n = depth,
                  .k = context_,
                  .alpha = alpha,
                  .a = matrix_of,
                  .lda = context_,
                  .b = rows,
                  .ldb = row,
                  .c = to,
                  .ldc = stride,
                  .count = heads_,
                  .stride_a = matrix(),
                  .stride_b = depth,
                  .stride_c = depth});
  };
  for (int s = 0; s < sequences; ++s, probabilities += scratch()) {
    const std::int64_t first = static_cast<std::int64_t>(s) * context_;
    const Real* query = qkv + first * stride;
    const Real* key = query + width_;
    const Real* value = key + width_;
    const Real* up = dout + first * width_;
    Real* dquery = dqkv + first * stride;
    Real* dkey = dquery + width_;
    Real* dvalue = dkey + width_;
    mix(Op::transposed, Real{1}, probabilities, up, width_, dvalue);
    math.product({.op_b = Op::transposed,
                  .m = context_,
                  .n = context_,
                  .k = depth,
                  .a = up,
                  .lda = width_,
                  .b = value,
                  .ldb = stride,
                  .c = scores,
                  .ldc = context_,
                  .count = heads_,
                  .stride_a = depth,
                  .stride_b = depth,
                  .stride_c = matrix()});
    math.causal_softmax_backward(probabilities, scores, context_, heads_);
    mix(Op::plain, scale, scores, key, stride, dquery);
    mix(Op::transposed, scale, scores, query, stride, dkey);
  }
}

template class Attention<float>;
template class Attention<double>;

}  // namespace weft::examples
