#include "gpt.hpp"

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
      embedding_(this->new_group(), vocabulary, sizes.context, sizes.width, 10, 10),
      blocks_([&] {
        std::vector<Block> blocks;
        const BlockSizes block{sizes.layers, sizes.width, sizes.heads, sizes.context};
        for (int i = 0; i < sizes.layers; ++i) {
          const std::string name = "block" + std::to_string(i);
          ParameterTable<Real>& group = this->new_group();
          AttentionBranch<Real> attention(group, name + ".attention", block);
          MlpBranch<Real> mlp(group, name + ".mlp", block);
          blocks.push_back({attention, mlp, attention.make_saved(workspace_, sizes.sequences),
                            mlp.make_saved(workspace_, sizes.sequences)});
        }
        return blocks;
      }()),
      norm_(this->new_group(), "norm", sizes.width),
      head_(this->table_, "head", sizes.width, vocabulary, 0, Linear<Real>::Bias::none) {
  const int rows = sizes.sequences * sizes.context;
  norm_saved_ = norm_.make_saved(workspace_, rows);
  attention_flow_ = blocks_.front().attention.make_flow(workspace_, sizes.sequences);
  mlp_flow_ = blocks_.front().mlp.make_flow(workspace_, sizes.sequences);
  stream_ = workspace_.take(rows, sizes.width);
  features_ = workspace_.take(rows, sizes.width);
  dfeatures_ = workspace_.take(rows, sizes.width);
  logits_ = workspace_.take(rows, vocabulary);
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
    embedding_.forward(tokens(tokens_), stream_, sequences);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto at_work = this->at_work(i + 1);
    blocks_[i].attention.forward(stream_, blocks_[i].attention_saved, sequences);
    blocks_[i].mlp.forward(stream_, blocks_[i].mlp_saved, sequences);
  }
  const auto last = this->at_work(blocks_.size() + 1);
  norm_.forward(stream_, features_, norm_saved_, rows);
  head_.forward(features_, logits_, rows);
  return math.cross_entropy(logits_, tokens(targets_), rows, vocabulary, vocabulary);
}

template <class Real>
void Gpt<Real>::run_backward(GradientSink<Real>& sink) {
  const int sequences = sequences_;
  const int rows = sequences * sizes_.context;
  {
    const auto last = this->at_work(blocks_.size() + 1);
    head_.backward_weight(features_, logits_, rows, sink);
    head_.backward_input(logits_, dfeatures_, rows);
    norm_.backward_weight(dfeatures_, norm_saved_, rows, sink);
    norm_.backward_input(dfeatures_, norm_saved_, nullptr, stream_, rows);
  }
  const Real* gradient = stream_;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const auto at_work = this->at_work(i + 1);
    const Block& block = blocks_[i];
    block.mlp.backward(Pass::both, gradient, block.mlp_saved, mlp_flow_, sequences, sink);
    block.attention.backward(Pass::both, mlp_flow_.dx, block.attention_saved, attention_flow_, sequences,
                             sink);
    gradient = attention_flow_.dx;
  }
  // Which reads no parameter.
  embedding_.backward_weight(tokens(tokens_), gradient, sequences, sink);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace weft::examples
