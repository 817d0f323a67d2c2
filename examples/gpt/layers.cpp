#include "layers.hpp"

#include <algorithm>
#include <cmath>

#include "blas.hpp"
#include "numeric.hpp"

namespace weft::examples {

template <class Real>
Real* Workspace<Real>::take(std::int64_t rows, std::int64_t columns) {
  blocks_.emplace_back(static_cast<std::size_t>(rows * columns));
  bytes_ += rows * columns * static_cast<std::int64_t>(sizeof(Real));
  return blocks_.back().data();
}

namespace {

Initial constant(double value) {
  return {.shape = Initial::Shape::constant, .mean = value};
}

/// Without deviation nothing is drawn: a zero is a constant.
Initial normal(double deviation) {
  if (deviation == 0) return constant(0);
  return {.shape = Initial::Shape::normal, .deviation = deviation};
}

template <class Real>
void add_row(const Real* __restrict row, Real* __restrict sum, int width) {
  for (int j = 0; j < width; ++j) sum[j] += row[j];
}

template <class Real>
void sum_rows(const Real* x, Real* sum, int rows, int width) {
  std::fill_n(sum, width, Real{0});
  for (std::int64_t i = 0; i < rows; ++i) add_row(x + i * width, sum, width);
}

}  // namespace

template <class Real>
Linear<Real>::Linear(ParameterTable<Real>& table, const std::string& name, int inputs, int outputs,
                     double deviation, Bias bias)
    : table_(&table),
      inputs_(inputs),
      outputs_(outputs),
      weight_(table.add(name + ".weight", {outputs, inputs}, normal(deviation))) {
  if (bias == Bias::zero) bias_ = table.add(name + ".bias", {outputs}, constant(0));
}

template <class Real>
void Linear<Real>::forward(const Real* x, Real* y, int rows, Result result) const {
  if (bias_ >= 0) {
    const Real* bias = (*table_)[bias_];
    for (std::int64_t i = 0; i < rows; ++i) {
      if (result == Result::add) {
        add_row(bias, y + i * outputs_, outputs_);
      } else {
        std::copy_n(bias, outputs_, y + i * outputs_);
      }
    }
  }
  const bool onto = bias_ >= 0 || result == Result::add;
  gemm(Op::plain, Op::transposed, rows, outputs_, inputs_, Real{1}, x, inputs_, (*table_)[weight_], inputs_,
       onto ? Real{1} : Real{0}, y, outputs_);
}

template <class Real>
void Linear<Real>::backward_input(const Real* dy, Real* dx, int rows) const {
  gemm(Op::plain, Op::plain, rows, inputs_, outputs_, Real{1}, dy, outputs_, (*table_)[weight_], inputs_,
       Real{0}, dx, inputs_);
}

template <class Real>
void Linear<Real>::backward_weight(const Real* x, const Real* dy, int rows, GradientSink<Real>& sink) const {
  if (bias_ >= 0) {
    sum_rows(dy, sink.target(bias_).data(), rows, outputs_);
    sink.ready(bias_);
  }
  gemm(Op::transposed, Op::plain, outputs_, inputs_, rows, Real{1}, dy, outputs_, x, inputs_, Real{0},
       sink.target(weight_).data(), inputs_);
  sink.ready(weight_);
}

template <class Real>
LayerNorm<Real>::LayerNorm(ParameterTable<Real>& table, const std::string& name, int width)
    : table_(&table),
      width_(width),
      gain_(table.add(name + ".gain", {width}, constant(1))),
      bias_(table.add(name + ".bias", {width}, constant(0))) {}

template <class Real>
auto LayerNorm<Real>::make_saved(Workspace<Real>& workspace, int rows) const -> Saved {
  return {workspace.take(rows, width_), workspace.take(rows, 1)};
}

template <class Real>
void LayerNorm<Real>::forward(const Real* x, Real* y, const Saved& saved, int rows) const {
  const Real* __restrict gain = (*table_)[gain_];
  const Real* __restrict bias = (*table_)[bias_];
  const auto width = static_cast<Real>(width_);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Real* __restrict in = x + i * width_;
    Real* __restrict normal = saved.normalized + i * width_;
    Real* __restrict out = y + i * width_;
    const Real mean = lane_sum<Real>(width_, [&](std::int64_t j) { return in[j]; }) / width;
    const Real variance =
        lane_sum<Real>(width_, [&](std::int64_t j) { return (in[j] - mean) * (in[j] - mean); }) / width;
    const Real scale = Real{1} / std::sqrt(variance + static_cast<Real>(1e-5));
    saved.scale[i] = scale;
    for (int j = 0; j < width_; ++j) {
      normal[j] = (in[j] - mean) * scale;
      out[j] = normal[j] * gain[j] + bias[j];
    }
  }
}

template <class Real>
void LayerNorm<Real>::backward_input(const Real* dy, const Saved& saved, const Real* through, Real* dx,
                                     int rows) const {
  const Real* __restrict gain = (*table_)[gain_];
  const auto width = static_cast<Real>(width_);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Real* __restrict up = dy + i * width_;
    const Real* __restrict normal = saved.normalized + i * width_;
    Real* __restrict down = dx + i * width_;
    const Real mean = lane_sum<Real>(width_, [&](std::int64_t j) { return up[j] * gain[j]; }) / width;
    const Real slope =
        lane_sum<Real>(width_, [&](std::int64_t j) { return up[j] * gain[j] * normal[j]; }) / width;
    const Real scale = saved.scale[i];
    for (int j = 0; j < width_; ++j) down[j] = scale * (up[j] * gain[j] - mean - normal[j] * slope);
    if (through != nullptr) add_row(through + i * width_, down, width_);
  }
}

template <class Real>
void LayerNorm<Real>::backward_weight(const Real* dy, const Saved& saved, int rows,
                                      GradientSink<Real>& sink) const {
  sum_rows(dy, sink.target(bias_).data(), rows, width_);
  sink.ready(bias_);
  Real* __restrict dgain = sink.target(gain_).data();
  std::fill_n(dgain, width_, Real{0});
  for (std::int64_t i = 0; i < rows; ++i) {
    const Real* __restrict up = dy + i * width_;
    const Real* __restrict normal = saved.normalized + i * width_;
    for (int j = 0; j < width_; ++j) dgain[j] += up[j] * normal[j];
  }
  sink.ready(gain_);
}

template <class Real>
Embedding<Real>::Embedding(ParameterTable<Real>& table, int vocabulary, int context, int width, double tokens,
                           double positions)
    : table_(&table),
      vocabulary_(vocabulary),
      context_(context),
      width_(width),
      tokens_(table.add("embedding.tokens", {vocabulary, width}, normal(tokens))),
      positions_(table.add("embedding.positions", {context, width},
                           {.shape = Initial::Shape::waves, .deviation = positions})) {}

template <class Real>
void Embedding<Real>::forward(Batch batch, Real* x) const {
  const Real* tokens = (*table_)[tokens_];
  const Real* positions = (*table_)[positions_];
  for (const Sequence& sequence : batch) {
    for (std::int64_t t = 0; t < context_; ++t, x += width_) {
      std::copy_n(tokens + static_cast<std::int64_t>(sequence[t]) * width_, width_, x);
      add_row(positions + t * width_, x, width_);
    }
  }
}

template <class Real>
void Embedding<Real>::backward_weight(Batch batch, const Real* dx, GradientSink<Real>& sink) const {
  Real* positions = sink.target(positions_).data();
  std::fill_n(positions, static_cast<std::int64_t>(context_) * width_, Real{0});
  const Real* row = dx;
  for (std::size_t s = 0; s < batch.size(); ++s) {
    for (std::int64_t t = 0; t < context_; ++t, row += width_) add_row(row, positions + t * width_, width_);
  }
  sink.ready(positions_);
  Real* tokens = sink.target(tokens_).data();
  std::fill_n(tokens, static_cast<std::int64_t>(vocabulary_) * width_, Real{0});
  row = dx;
  for (const Sequence& sequence : batch) {
    for (std::int64_t t = 0; t < context_; ++t, row += width_) {
      add_row(row, tokens + static_cast<std::int64_t>(sequence[t]) * width_, width_);
    }
  }
  sink.ready(tokens_);
}

template class Workspace<float>;
template class Workspace<double>;
template class Linear<float>;
template class Linear<double>;
template class LayerNorm<float>;
template class LayerNorm<double>;
template class Embedding<float>;
template class Embedding<double>;

}  // namespace weft::examples
