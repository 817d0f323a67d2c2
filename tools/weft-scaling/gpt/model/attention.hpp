#pragma once
// Causal multi-head attention without its projections: no parameters, only products and a masked softmax.
//
// Input is the fused row [query, key, value] of each token; per sequence the products of all heads are small
// GEMMs that read the fused rows in place through their stride, so nothing is transposed or copied. The
// probabilities are kept for backward.
//
//   attention.forward(math, qkv, probabilities, out, sequences);
//   attention.backward(math, qkv, probabilities, dout, scratch, dqkv, sequences);

#include <cstdint>

#include "weft-scaling/gpt/math/math.hpp"

namespace weft::examples {

template <class Real>
class Attention {
 public:
  Attention(int context, int width, int heads) : context_(context), width_(width), heads_(heads) {}

  /// Elements of `probabilities` for this many sequences, and of `scratch`.
  std::int64_t probabilities(int sequences) const { return scratch() * sequences; }
  std::int64_t scratch() const { return matrix() * heads_; }

  /// qkv [sequences * context, 3 width] -> out [sequences * context, width]
  void forward(Math<Real>& math, const Real* qkv, Real* probabilities, Real* out, int sequences) const;
  void backward(Math<Real>& math, const Real* qkv, const Real* probabilities, const Real* dout, Real* scratch,
                Real* dqkv, int sequences) const;

 private:
  std::int64_t matrix() const { return static_cast<std::int64_t>(context_) * context_; }
  int depth() const { return width_ / heads_; }
  /// matrices[context, context] = alpha * a b^T; a and b [context, depth]
  void scores(Math<Real>& math, Real alpha, const Real* a, int lda, const Real* b, int ldb,
              Real* matrices) const;
  /// to[context, depth] = alpha * op(matrices) rows
  void mix(Math<Real>& math, Op op, Real alpha, const Real* matrices, const Real* rows, int ld, Real* to,
           int ldto) const;

  int context_;
  int width_;
  int heads_;
};

}  // namespace weft::examples
