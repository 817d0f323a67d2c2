#include "weft-scaling/gpt/model/block.hpp"

#include <cmath>

namespace weft::examples {

namespace {

constexpr double initial_deviation = 0.02;

/// Every branch adds to the stream; this keeps its variance independent of the number of branches.
double onto_stream(const BlockSizes& sizes) {
  return initial_deviation / std::sqrt(2.0 * sizes.layers);
}

}  // namespace

template <class Real>
AttentionBranch<Real>::AttentionBranch(ParameterTable<Real>& table, const std::string& name,
                                       const BlockSizes& sizes)
    : math_(table.math()),
      sizes_(sizes),
      norm_(table, name + ".norm", sizes.width),
      qkv_(table, name + ".qkv", sizes.width, 3 * sizes.width, initial_deviation, Linear<Real>::Bias::zero),
      attention_(sizes.context, sizes.width, sizes.heads),
      project_(table, name + ".project", sizes.width, sizes.width, onto_stream(sizes),
               Linear<Real>::Bias::zero) {}

template <class Real>
auto AttentionBranch<Real>::make_saved(Workspace<Real>& workspace, int sequences) const -> Saved {
  const int rows = sequences * sizes_.context;
  return {norm_.make_saved(workspace, rows), workspace.take(rows, sizes_.width),
          workspace.take(rows, 3 * sizes_.width), workspace.take(1, attention_.probabilities(sequences)),
          workspace.take(rows, sizes_.width)};
}

template <class Real>
auto AttentionBranch<Real>::make_flow(Workspace<Real>& workspace, int sequences) const -> Flow {
  const int rows = sequences * sizes_.context;
  return {workspace.take(rows, sizes_.width), workspace.take(rows, 3 * sizes_.width),
          workspace.take(rows, sizes_.width), workspace.take(rows, sizes_.width),
          workspace.take(1, attention_.scratch())};
}

template <class Real>
auto AttentionBranch<Real>::make_flow(Workspace<Real>& workspace, int sequences, const Flow& shared) const
    -> Flow {
  const int rows = sequences * sizes_.context;
  return {shared.dmixed, workspace.take(rows, 3 * sizes_.width), workspace.take(rows, sizes_.width),
          workspace.take(rows, sizes_.width), shared.scratch};
}

template <class Real>
void AttentionBranch<Real>::forward(Real* x, const Saved& saved, int sequences) const {
  const int rows = sequences * sizes_.context;
  norm_.forward(x, saved.input, saved.norm, rows);
  qkv_.forward(saved.input, saved.qkv, rows);
  attention_.forward(math_, saved.qkv, saved.probabilities, saved.mixed, sequences);
  project_.forward(saved.mixed, x, rows, Linear<Real>::Result::add);
}

template <class Real>
void AttentionBranch<Real>::backward(Pass pass, const Real* dy, const Saved& saved, const Flow& flow,
                                     int sequences, GradientSink<Real>& sink) const {
  const int rows = sequences * sizes_.context;
  if (wants_weight(pass)) project_.backward_weight(saved.mixed, dy, rows, sink);
  if (wants_input(pass)) {
    project_.backward_input(dy, flow.dmixed, rows);
    attention_.backward(math_, saved.qkv, saved.probabilities, flow.dmixed, flow.scratch, flow.dqkv,
                        sequences);
  }
  if (wants_weight(pass)) qkv_.backward_weight(saved.input, flow.dqkv, rows, sink);
  if (wants_input(pass)) qkv_.backward_input(flow.dqkv, flow.dinput, rows);
  if (wants_weight(pass)) norm_.backward_weight(flow.dinput, saved.norm, rows, sink);
  if (wants_input(pass)) norm_.backward_input(flow.dinput, saved.norm, dy, flow.dx, rows);
}

template <class Real>
MlpBranch<Real>::MlpBranch(ParameterTable<Real>& table, const std::string& name, const BlockSizes& sizes)
    : math_(table.math()),
      sizes_(sizes),
      norm_(table, name + ".norm", sizes.width),
      expand_(table, name + ".expand", sizes.width, 4 * sizes.width, initial_deviation,
              Linear<Real>::Bias::zero),
      project_(table, name + ".project", 4 * sizes.width, sizes.width, onto_stream(sizes),
               Linear<Real>::Bias::zero) {}

template <class Real>
auto MlpBranch<Real>::make_saved(Workspace<Real>& workspace, int sequences) const -> Saved {
  const int rows = sequences * sizes_.context;
  return {norm_.make_saved(workspace, rows), workspace.take(rows, sizes_.width),
          workspace.take(rows, 4 * sizes_.width), workspace.take(rows, 4 * sizes_.width)};
}

template <class Real>
auto MlpBranch<Real>::make_flow(Workspace<Real>& workspace, int sequences) const -> Flow {
  const int rows = sequences * sizes_.context;
  return {workspace.take(rows, 4 * sizes_.width), workspace.take(rows, sizes_.width),
          workspace.take(rows, sizes_.width)};
}

template <class Real>
void MlpBranch<Real>::forward(Real* x, const Saved& saved, int sequences) const {
  const int rows = sequences * sizes_.context;
  norm_.forward(x, saved.input, saved.norm, rows);
  expand_.forward(saved.input, saved.slope, rows);
  math_.gelu(saved.slope, saved.hidden, static_cast<std::int64_t>(rows) * 4 * sizes_.width);
  project_.forward(saved.hidden, x, rows, Linear<Real>::Result::add);
}

template <class Real>
void MlpBranch<Real>::backward(Pass pass, const Real* dy, const Saved& saved, const Flow& flow, int sequences,
                               GradientSink<Real>& sink) const {
  const int rows = sequences * sizes_.context;
  if (wants_weight(pass)) project_.backward_weight(saved.hidden, dy, rows, sink);
  if (wants_input(pass)) {
    project_.backward_input(dy, flow.dhidden, rows);
    math_.multiply(saved.slope, flow.dhidden, static_cast<std::int64_t>(rows) * 4 * sizes_.width);
  }
  if (wants_weight(pass)) expand_.backward_weight(saved.input, flow.dhidden, rows, sink);
  if (wants_input(pass)) expand_.backward_input(flow.dhidden, flow.dinput, rows);
  if (wants_weight(pass)) norm_.backward_weight(flow.dinput, saved.norm, rows, sink);
  if (wants_input(pass)) norm_.backward_input(flow.dinput, saved.norm, dy, flow.dx, rows);
}

template class AttentionBranch<float>;
template class AttentionBranch<double>;
template class MlpBranch<float>;
template class MlpBranch<double>;

}  // namespace weft::examples
