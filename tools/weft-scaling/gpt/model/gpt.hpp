#pragma once
// A byte-level GPT: learned token and position embeddings, pre-norm blocks, final norm, untied output head.
//
// It predicts every byte of a sequence from the bytes before it. Matrices start as in GPT-2: normal, 0.02,
// with the projections onto the residual stream scaled down by the square root of their number. The head
// starts at zero, so the first loss is exactly ln 256 and no step is spent on unlearning random logits. The
// embeddings start large (10 per element) because Adam moves every weight by about the learning rate
// per step: within a few steps the branches would otherwise drown the token in the stream, and a run of 40
// steps would end at the byte frequencies. Positions start as sines, in which "the byte before" is one
// rotation; from random rows a few hundred steps do not find it.
//
//   Gpt<float> model(host_math<float>(),
//                    {.layers = 5, .width = 384, .heads = 6, .context = 128, .sequences = 4});

#include <vector>

#include "weft-scaling/gpt/model/gpt_layers.hpp"
#include "weft-scaling/gpt/model/model.hpp"

namespace weft::examples {

template <class Real>
class Gpt final : public Model<Real> {
 public:
  Gpt(Math<Real>& math, const GptSizes& sizes);
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }

 private:
  struct Saved {
    typename AttentionBranch<Real>::Saved attention;
    typename MlpBranch<Real>::Saved mlp;
  };

  double run_forward(Batch batch) override;
  void run_backward(GradientSink<Real>& sink) override;

  GptSizes sizes_;
  Workspace<Real> workspace_;
  GptLayers<Real> layers_;

  std::vector<Saved> saved_;  // by block
  typename LayerNorm<Real>::Saved norm_saved_;
  typename AttentionBranch<Real>::Flow attention_flow_;
  typename MlpBranch<Real>::Flow mlp_flow_;
  Real* stream_;    // [rows, width]; in backward the gradient that enters the last block
  Real* features_;  // [rows, width] after the final norm
  Real* dfeatures_;
  Real* logits_;       // [rows, vocabulary]; their gradient after forward
  int sequences_ = 0;  // in the current batch
  Buffer tokens_;      // its bytes: what is seen, and below what is to be predicted
  Buffer targets_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace weft::examples
