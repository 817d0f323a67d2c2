#include "weft-scaling/gpt/model/mlp.hpp"

#include <cmath>
#include <utility>

namespace weft::examples {

namespace {

// Mean and deviation of the bytes of English text in ASCII.
constexpr double byte_mean = 86;
constexpr double byte_deviation = 34;

}  // namespace

template <class Real>
Mlp<Real>::Mlp(Math<Real>& math, const MlpSizes& sizes)
    : Model<Real>(math, sizes.sequences, sizes.width + 1), sizes_(sizes), workspace_(math) {
  const double he = std::sqrt(2.0 / sizes.width);
  activations_.push_back(workspace_.take(sizes.sequences, sizes.width));
  for (int i = 0; i < sizes.layers; ++i) {
    linears_.emplace_back(this->new_group(), "linear" + std::to_string(i), sizes.width, sizes.width, he,
                          Linear<Real>::Bias::zero);
    activations_.push_back(workspace_.take(sizes.sequences, sizes.width));
  }
  upstream_ = workspace_.take(sizes.sequences, sizes.width);
  downstream_ = workspace_.take(sizes.sequences, sizes.width);
  inputs_ = Buffer::on(math.device(), DataType::u8, std::int64_t{sizes.sequences} * sizes.width);
  targets_ = Buffer::on(math.device(), DataType::u8, sizes.sequences);
}

template <class Real>
double Mlp<Real>::run_forward(Batch batch) {
  Math<Real>& math = this->math();
  const int rows = rows_ = static_cast<int>(batch.size());
  bytes_.clear();
  for (const Sequence& sequence : batch) bytes_.insert(bytes_.end(), sequence.begin(), sequence.end() - 1);
  math.put_bytes(bytes_, inputs_);
  math.standardize(static_cast<const std::uint8_t*>(inputs_.view().data()), activations_.front(),
                   std::int64_t{rows} * sizes_.width, byte_mean, byte_deviation);
  bytes_.clear();
  for (const Sequence& sequence : batch) bytes_.push_back(sequence.back());
  math.put_bytes(bytes_, targets_);

  for (std::size_t i = 0; i < linears_.size(); ++i) {
    const auto at_work = this->at_work(i);
    linears_[i].forward(activations_[i], activations_[i + 1], rows);
    if (i + 1 < linears_.size())
      math.relu(activations_[i + 1], static_cast<std::int64_t>(rows) * sizes_.width);
  }
  return math.cross_entropy(activations_.back(), static_cast<const std::uint8_t*>(targets_.view().data()),
                            rows, classes, sizes_.width, rows);
}

template <class Real>
void Mlp<Real>::run_backward(GradientSink<Real>& sink) {
  const int rows = rows_;
  const Real* gradient = activations_.back();
  for (std::size_t i = linears_.size(); i-- > 0;) {
    linears_[i].backward_weight(activations_[i], gradient, rows, sink);
    if (i == 0) break;
    {
      const auto at_work = this->at_work(i);
      linears_[i].backward_input(gradient, downstream_, rows);
    }
    this->math().relu_backward(activations_[i], downstream_, static_cast<std::int64_t>(rows) * sizes_.width);
    std::swap(upstream_, downstream_);
    gradient = upstream_;
  }
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace weft::examples
