#include "weft-scaling/gpt/model/layers.hpp"

namespace weft::examples {

template <class Real>
Real* Workspace<Real>::take(std::int64_t rows, std::int64_t columns) {
  blocks_.push_back(math_->allocate(rows * columns));
  bytes_ += rows * columns * static_cast<std::int64_t>(sizeof(Real));
  return static_cast<Real*>(blocks_.back().view().data());
}

namespace {

Initial constant(double value) {
  return {.shape = Initial::Shape::constant, .mean = value};
}

/// With a deviation of zero the value is a constant, and no random number is drawn.
Initial normal(double deviation) {
  if (deviation == 0) return constant(0);
  return {.shape = Initial::Shape::normal, .deviation = deviation};
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
  Math<Real>& math = table_->math();
  if (bias_ >= 0 && result == Result::add) math.add_row((*table_)[bias_], y, rows, outputs_);
  if (bias_ >= 0 && result == Result::replace) math.copy_row((*table_)[bias_], y, rows, outputs_);
  const bool onto = bias_ >= 0 || result == Result::add;
  math.product({.op_b = Op::transposed,
                .m = rows,
                .n = outputs_,
                .k = inputs_,
                .a = x,
                .lda = inputs_,
                .b = (*table_)[weight_],
                .ldb = inputs_,
                .beta = onto ? Real{1} : Real{0},
                .c = y,
                .ldc = outputs_});
}

template <class Real>
void Linear<Real>::backward_input(const Real* dy, Real* dx, int rows) const {
  table_->math().product({.m = rows,
                          .n = inputs_,
                          .k = outputs_,
                          .a = dy,
                          .lda = outputs_,
                          .b = (*table_)[weight_],
                          .ldb = inputs_,
                          .c = dx,
                          .ldc = inputs_});
}

template <class Real>
void Linear<Real>::backward_weight(const Real* x, const Real* dy, int rows, GradientSink<Real>& sink) const {
  if (bias_ >= 0) {
    table_->math().sum_rows(dy, sink.target(bias_), rows, outputs_);
    sink.ready(bias_);
  }
  table_->math().product({.op_a = Op::transposed,
                          .m = outputs_,
                          .n = inputs_,
                          .k = rows,
                          .a = dy,
                          .lda = outputs_,
                          .b = x,
                          .ldb = inputs_,
                          .c = sink.target(weight_),
                          .ldc = inputs_});
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
  table_->math().norm(x, (*table_)[gain_], (*table_)[bias_], saved.normalized, saved.scale, y, rows, width_);
}

template <class Real>
void LayerNorm<Real>::backward_input(const Real* dy, const Saved& saved, const Real* through, Real* dx,
                                     int rows) const {
  table_->math().norm_input(dy, (*table_)[gain_], saved.normalized, saved.scale, through, dx, rows, width_);
}

template <class Real>
void LayerNorm<Real>::backward_weight(const Real* dy, const Saved& saved, int rows,
                                      GradientSink<Real>& sink) const {
  table_->math().sum_rows(dy, sink.target(bias_), rows, width_);
  sink.ready(bias_);
  table_->math().norm_gain(dy, saved.normalized, sink.target(gain_), rows, width_);
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
void Embedding<Real>::forward(const std::uint8_t* tokens, Real* x, int sequences) const {
  table_->math().embed(tokens, (*table_)[tokens_], (*table_)[positions_], x, sequences, context_, width_);
}

template <class Real>
void Embedding<Real>::backward_weight(const std::uint8_t* tokens, const Real* dx, int sequences,
                                      GradientSink<Real>& sink) const {
  table_->math().embed_positions(dx, sink.target(positions_), sequences, context_, width_);
  sink.ready(positions_);
  table_->math().embed_tokens(tokens, dx, sink.target(tokens_), vocabulary_, sequences * context_, width_);
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
