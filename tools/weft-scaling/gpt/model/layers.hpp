#pragma once
// The layers of the example models that have parameters: linear, layer norm, embedding. Math has the rest.
//
// A layer knows only the numbers of its parameters and the Math of their table. Activations are arguments, so
// a pipeline can keep one set per microbatch. Where a layer has parameters, backward is two functions:
// `backward_input` passes the gradient on and `backward_weight` writes the parameters' gradients; they may
// run in either order and far apart, as long as what they read is still there. Matrices are row major with
// one row per token.
//
//   linear.forward(x, y, rows);
//   linear.backward_input(dy, dx, rows);
//   linear.backward_weight(x, dy, rows, sink);   // calls sink.ready() for the bias, then the weight

#include <cstdint>
#include <string>
#include <vector>

#include "weft-scaling/gpt/model/model.hpp"

namespace weft::examples {

/// Which half of a backward pass to run: a pipeline may postpone weight gradients, a plain trainer runs both.
enum class Pass { both, input, weight };

constexpr bool wants_input(Pass pass) {
  return pass != Pass::weight;
}
constexpr bool wants_weight(Pass pass) {
  return pass != Pass::input;
}

/// Owns activations. All memory is allocated when a model is made, none in a step.
template <class Real>
class Workspace {
 public:
  explicit Workspace(const Math<Real>& math) : math_(&math) {}
  Real* take(std::int64_t rows, std::int64_t columns);
  std::int64_t bytes() const { return bytes_; }

 private:
  const Math<Real>* math_;
  std::vector<Buffer> blocks_;
  std::int64_t bytes_ = 0;
};

/// y = x weight^T + bias, weight stored as [outputs, inputs].
template <class Real>
class Linear {
 public:
  enum class Bias { none, zero };
  /// What forward() does with y: replace it, or add to it (a residual branch joining its stream).
  enum class Result { replace, add };

  Linear(ParameterTable<Real>& table, const std::string& name, int inputs, int outputs, double deviation,
         Bias bias);
  void forward(const Real* x, Real* y, int rows, Result result = Result::replace) const;
  void backward_input(const Real* dy, Real* dx, int rows) const;
  void backward_weight(const Real* x, const Real* dy, int rows, GradientSink<Real>& sink) const;

 private:
  const ParameterTable<Real>* table_;
  int inputs_;
  int outputs_;
  int weight_;
  int bias_ = -1;
};

template <class Real>
class LayerNorm {
 public:
  /// What forward() keeps for backward.
  struct Saved {
    Real* normalized = nullptr;  ///< [rows, width]
    Real* scale = nullptr;       ///< [rows], 1 / standard deviation
  };

  LayerNorm(ParameterTable<Real>& table, const std::string& name, int width);
  Saved make_saved(Workspace<Real>& workspace, int rows) const;
  void forward(const Real* x, Real* y, const Saved& saved, int rows) const;
  /// dx = through + the gradient through the norm; `through` is the gradient of the residual stream beside
  /// the norm, or null.
  void backward_input(const Real* dy, const Saved& saved, const Real* through, Real* dx, int rows) const;
  void backward_weight(const Real* dy, const Saved& saved, int rows, GradientSink<Real>& sink) const;

 private:
  const ParameterTable<Real>* table_;
  int width_;
  int gain_;
  int bias_;
};

/// Rows of a table of tokens plus rows of a table of positions.
template <class Real>
class Embedding {
 public:
  /// @param tokens, positions root mean square of the initial rows
  Embedding(ParameterTable<Real>& table, int vocabulary, int context, int width, double tokens,
            double positions);
  /// @param tokens [sequences, context], in the device's memory
  void forward(const std::uint8_t* tokens, Real* x, int sequences) const;
  void backward_weight(const std::uint8_t* tokens, const Real* dx, int sequences,
                       GradientSink<Real>& sink) const;

 private:
  const ParameterTable<Real>* table_;
  int vocabulary_;
  int context_;
  int width_;
  int tokens_;
  int positions_;
};

}  // namespace weft::examples
