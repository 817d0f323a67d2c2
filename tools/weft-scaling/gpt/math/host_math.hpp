#pragma once
// Math on the host: OpenBLAS for products, loops for the rest.

#include "weft-scaling/gpt/math/math.hpp"

namespace weft::examples {

template <class Real>
class HostMath final : public Math<Real> {
 public:
  Device device() const override { return {}; }
  void put(std::span<const Real> from, Real* to) override;
  void get(const Real* from, std::span<Real> to) override;
  void put_bytes(std::span<const std::uint8_t> from, const Buffer& to) override;
  void product(const Product<Real>& product) override;
  void copy_row(const Real* row, Real* y, int rows, int width) override;
  void add_row(const Real* row, Real* y, int rows, int width) override;
  void sum_rows(const Real* x, Real* sum, int rows, int width) override;
  void norm(const Real* x, const Real* gain, const Real* bias, Real* normalized, Real* scale, Real* y,
            int rows, int width) override;
  void norm_input(const Real* dy, const Real* gain, const Real* normalized, const Real* scale,
                  const Real* through, Real* dx, int rows, int width) override;
  void norm_gain(const Real* dy, const Real* normalized, Real* dgain, int rows, int width) override;
  void embed(const std::uint8_t* tokens, const Real* table, const Real* positions, Real* x, int sequences,
             int context, int width) override;
  void embed_positions(const Real* dx, Real* dpositions, int sequences, int context, int width) override;
  void embed_tokens(const std::uint8_t* tokens, const Real* dx, Real* dtable, int vocabulary, int rows,
                    int width) override;
  void standardize(const std::uint8_t* bytes, Real* x, std::int64_t count, double mean,
                   double deviation) override;
  void gelu(Real* x_to_slope, Real* y, std::int64_t count) override;
  void multiply(const Real* slope, Real* dx, std::int64_t count) override;
  void relu(Real* x, std::int64_t count) override;
  void relu_backward(const Real* y, Real* dx, std::int64_t count) override;
  void add(const Real* x, Real* sum, std::int64_t count) override;
  void causal_softmax(Real* scores, int context, int matrices) override;
  void causal_softmax_backward(const Real* probabilities, Real* gradient, int context, int matrices) override;
  double cross_entropy(Real* logits_to_gradient, const std::uint8_t* targets, int rows, int classes,
                       int stride, std::int64_t of_rows) override;
};

}  // namespace weft::examples
