#include "mlp.hpp"

#include <cmath>
#include <utility>

namespace weft::examples {

namespace {

// Of English text in ASCII.
constexpr double byte_mean = 86;
constexpr double byte_deviation = 34;

}  // namespace

template <class Real>
Mlp<Real>::Mlp(const MlpSizes& sizes) : Model<Real>(sizes.sequences, sizes.width + 1), sizes_(sizes) {
  const double he = std::sqrt(2.0 / sizes.width);
  activations_.push_back(workspace_.take(sizes.sequences, sizes.width));
  for (int i = 0; i < sizes.layers; ++i) {
    linears_.emplace_back(this->table_, "linear" + std::to_string(i), sizes.width, sizes.width, he,
                          Linear<Real>::Bias::zero);
    activations_.push_back(workspace_.take(sizes.sequences, sizes.width));
  }
  upstream_ = workspace_.take(sizes.sequences, sizes.width);
  downstream_ = workspace_.take(sizes.sequences, sizes.width);
  targets_.reserve(static_cast<std::size_t>(sizes.sequences));
}

template <class Real>
double Mlp<Real>::run_forward(Batch batch) {
  targets_.clear();
  Real* input = activations_.front();
  for (const Sequence& sequence : batch) {
    for (const std::uint8_t byte : sequence.first(static_cast<std::size_t>(sizes_.width))) {
      *input++ = static_cast<Real>((byte - byte_mean) / byte_deviation);
    }
    targets_.push_back(sequence.back());
  }
  const int rows = static_cast<int>(batch.size());
  for (std::size_t i = 0; i < linears_.size(); ++i) {
    linears_[i].forward(activations_[i], activations_[i + 1], rows);
    if (i + 1 < linears_.size()) relu(activations_[i + 1], static_cast<std::int64_t>(rows) * sizes_.width);
  }
  return cross_entropy(activations_.back(), targets_, classes, sizes_.width);
}

template <class Real>
void Mlp<Real>::run_backward(GradientSink<Real>& sink) {
  const int rows = static_cast<int>(targets_.size());
  const Real* gradient = activations_.back();
  for (std::size_t i = linears_.size(); i-- > 0;) {
    linears_[i].backward_weight(activations_[i], gradient, rows, sink);
    if (i == 0) break;
    linears_[i].backward_input(gradient, downstream_, rows);
    relu_backward(activations_[i], downstream_, static_cast<std::int64_t>(rows) * sizes_.width);
    std::swap(upstream_, downstream_);
    gradient = upstream_;
  }
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace weft::examples
