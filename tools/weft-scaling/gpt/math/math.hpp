#pragma once
// The arithmetic of the example models. A layer calls it without knowing whether it runs on the host or on a
// CUDA device.
//
// Addresses are in the device's memory (`allocate`). On the host a call is complete when it returns; on a
// CUDA device it is launched on the stream that the Math was made with, and only cross_entropy, get and put
// wait. Matrices are row major. The same calls give the same bits, run after run, on one device; another
// device sums in another order. One thread at a time uses a Math.
//
//   Math<float>& math = host_math<float>();
//   auto math = make_cuda_math<float>(compute);                  // with CUDA; launches on `compute`

#include <cstdint>
#include <memory>
#include <span>

#include "weft/core/buffer.hpp"
#include "weft/core/stream.hpp"

namespace weft::examples {

enum class Op { plain, transposed };

/// c[m, n] = alpha * op(a)[m, k] * op(b)[k, n] + beta * c; the ld are the lengths of the stored rows. `count`
/// products, whose operands are a stride apart.
template <class Real>
struct Product {
  Op op_a = Op::plain;
  Op op_b = Op::plain;
  int m = 0;
  int n = 0;
  int k = 0;
  Real alpha = 1;
  const Real* a = nullptr;
  int lda = 0;
  const Real* b = nullptr;
  int ldb = 0;
  Real beta = 0;
  Real* c = nullptr;
  int ldc = 0;
  int count = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
};

template <class Real>
class Math {
 public:
  virtual ~Math() = default;
  virtual Device device() const = 0;

  /// Memory of the device, filled with zeros.
  Buffer allocate(std::int64_t count) const { return Buffer::on(device(), data_type_of<Real>, count); }
  /// Copies from and to the host, and waits.
  virtual void put(std::span<const Real> from, Real* to) = 0;
  virtual void get(const Real* from, std::span<Real> to) = 0;
  /// Copies bytes from the host to the device, before the next call runs.
  virtual void put_bytes(std::span<const std::uint8_t> from, const Buffer& to) = 0;

  virtual void product(const Product<Real>& product) = 0;

  /// y[i] = row, y[i] += row, sum = sum over i of x[i]; all [rows, width]
  virtual void copy_row(const Real* row, Real* y, int rows, int width) = 0;
  virtual void add_row(const Real* row, Real* y, int rows, int width) = 0;
  virtual void sum_rows(const Real* x, Real* sum, int rows, int width) = 0;

  /// Layer norm; `normalized` and `scale` (1 / standard deviation, by row) are kept for backward.
  virtual void norm(const Real* x, const Real* gain, const Real* bias, Real* normalized, Real* scale, Real* y,
                    int rows, int width) = 0;
  /// dx = through + the gradient through the norm; `through` may be null
  virtual void norm_input(const Real* dy, const Real* gain, const Real* normalized, const Real* scale,
                          const Real* through, Real* dx, int rows, int width) = 0;
  virtual void norm_gain(const Real* dy, const Real* normalized, Real* dgain, int rows, int width) = 0;

  /// x[s, t] = table[tokens[s, t]] + positions[t]
  virtual void embed(const std::uint8_t* tokens, const Real* table, const Real* positions, Real* x,
                     int sequences, int context, int width) = 0;
  virtual void embed_positions(const Real* dx, Real* dpositions, int sequences, int context, int width) = 0;
  virtual void embed_tokens(const std::uint8_t* tokens, const Real* dx, Real* dtable, int vocabulary,
                            int rows, int width) = 0;
  /// x[i] = (bytes[i] - mean) / deviation
  virtual void standardize(const std::uint8_t* bytes, Real* x, std::int64_t count, double mean,
                           double deviation) = 0;

  /// y = gelu(x) in the tanh form; x becomes the slope, which is all that backward needs.
  virtual void gelu(Real* x_to_slope, Real* y, std::int64_t count) = 0;
  /// dx *= slope
  virtual void multiply(const Real* slope, Real* dx, std::int64_t count) = 0;
  /// y = max(x, 0), in place; dx = 0 where y = relu(x) is 0
  virtual void relu(Real* x, std::int64_t count) = 0;
  virtual void relu_backward(const Real* y, Real* dx, std::int64_t count) = 0;
  /// sum += x
  virtual void add(const Real* x, Real* sum, std::int64_t count) = 0;

  /// A softmax over each row of `matrices` context x context matrices. Row t sees columns 0..t only; the rest
  /// become 0, so that full products may be taken over them.
  virtual void causal_softmax(Real* scores, int context, int matrices) = 0;
  /// Gradient of the probabilities -> gradient of the scores, in place.
  virtual void causal_softmax_backward(const Real* probabilities, Real* gradient, int context,
                                       int matrices) = 0;

  /// What these rows bring to a mean of -log softmax(logits)[target] over `of_rows`, these and others; logits
  /// become the gradient of that mean. Columns from `classes` to `stride` are no logits and their gradient is
  /// 0. Waits.
  virtual double cross_entropy(Real* logits_to_gradient, const std::uint8_t* targets, int rows, int classes,
                               int stride, std::int64_t of_rows) = 0;
};

/// Puts BLAS on one thread for the whole process: a rank has one core.
template <class Real>
Math<Real>& host_math();

/// On the device of `stream`, which is a CUDA one. @throws Error (usage) in a build without CUDA
template <class Real>
std::unique_ptr<Math<Real>> make_cuda_math(const Stream& stream);

}  // namespace weft::examples
