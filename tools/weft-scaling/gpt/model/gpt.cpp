#include "weft-scaling/gpt/model/gpt.hpp"

namespace weft::examples {
namespace {

const std::uint8_t* tokens(const Buffer& bytes) {
  return static_cast<const std::uint8_t*>(bytes.view().data());
}

}  // namespace

template <class Real>
Gpt<Real>::Gpt(Math<Real>& math, const GptSizes& sizes)
    : Model<Real>(math, sizes.sequences, sizes.context + 1),
      sizes_(sizes),
      workspace_(math),
      layers_(this->table_, sizes) {
  const int rows = sizes.sequences * sizes.context;
  for (int unit = 0; unit < sizes.units(); ++unit) {
    if (unit_kind(sizes, unit) != GptUnit::mlp)  // an MLP is in the group of its block's attention
      this->begin_group(layers_.firsts()[static_cast<std::size_t>(unit)]);
  }
  for (std::size_t i = 0; i < layers_.mlp.size(); ++i) {
    saved_.push_back({layers_.attention[i].make_saved(workspace_, sizes.sequences),
                      layers_.mlp[i].make_saved(workspace_, sizes.sequences)});
  }
  norm_saved_ = layers_.norm.make_saved(workspace_, rows);
  attention_flow_ = layers_.attention.front().make_flow(workspace_, sizes.sequences);
  mlp_flow_ = layers_.mlp.front().make_flow(workspace_, sizes.sequences);
  stream_ = workspace_.take(rows, sizes.width);
  features_ = workspace_.take(rows, sizes.width);
  dfeatures_ = workspace_.take(rows, sizes.width);
  logits_ = workspace_.take(rows, GptSizes::vocabulary);
  tokens_ = Buffer::on(math.device(), DataType::u8, rows);
  targets_ = Buffer::on(math.device(), DataType::u8, rows);
  bytes_.reserve(static_cast<std::size_t>(rows));
}

template <class Real>
double Gpt<Real>::run_forward(Batch batch) {
  Math<Real>& math = this->math();
  const int sequences = sequences_ = static_cast<int>(batch.size());
  const int rows = sequences * sizes_.context;
  bytes_.clear();
  for (const Sequence& sequence : batch) bytes_.insert(bytes_.end(), sequence.begin(), sequence.end() - 1);
  math.put_bytes(bytes_, tokens_);
  bytes_.clear();
  for (const Sequence& sequence : batch) bytes_.insert(bytes_.end(), sequence.begin() + 1, sequence.end());
  math.put_bytes(bytes_, targets_);

  {
    const auto first = this->at_work(0);
    layers_.embedding.forward(tokens(tokens_), stream_, sequences);
  }
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    const auto at_work = this->at_work(i + 1);
    layers_.attention[i].forward(stream_, saved_[i].attention, sequences);
    layers_.mlp[i].forward(stream_, saved_[i].mlp, sequences);
  }
  const auto last = this->at_work(saved_.size() + 1);
  layers_.norm.forward(stream_, features_, norm_saved_, rows);
  layers_.head.forward(features_, logits_, rows);
  return math.cross_entropy(logits_, tokens(targets_), rows, GptSizes::vocabulary, GptSizes::vocabulary,
                            rows);
}

template <class Real>
void Gpt<Real>::run_backward(GradientSink<Real>& sink) {
  const int sequences = sequences_;
  const int rows = sequences * sizes_.context;
  {
    const auto last = this->at_work(saved_.size() + 1);
    layers_.head.backward_weight(features_, logits_, rows, sink);
    layers_.head.backward_input(logits_, dfeatures_, rows);
    layers_.norm.backward_weight(dfeatures_, norm_saved_, rows, sink);
    layers_.norm.backward_input(dfeatures_, norm_saved_, nullptr, stream_, rows);
  }
  const Real* gradient = stream_;
  for (std::size_t i = saved_.size(); i-- > 0;) {
    const auto at_work = this->at_work(i + 1);
    layers_.mlp[i].backward(Pass::both, gradient, saved_[i].mlp, mlp_flow_, sequences, sink);
    layers_.attention[i].backward(Pass::both, mlp_flow_.dx, saved_[i].attention, attention_flow_, sequences,
                                  sink);
    gradient = attention_flow_.dx;
  }
  // This reads no parameter.
  layers_.embedding.backward_weight(tokens(tokens_), gradient, sequences, sink);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace weft::examples
