#pragma once
// A plain multi-layer perceptron: equal square linear layers with ReLU between them.
//
// It has almost nothing but weights, so a step communicates much and computes little: the hard case for
// hiding communication. One example is `width` consecutive bytes of the text, scaled to about zero mean and
// unit variance; the first 256 outputs are the logits of the byte that follows.
//
//   Mlp<float> model(host_math<float>(), {.layers = 8, .width = 1024, .sequences = 32});

#include <vector>

#include "weft-scaling/gpt/model/layers.hpp"
#include "weft-scaling/gpt/model/model.hpp"

namespace weft::examples {

struct MlpSizes {
  int layers = 0;
  int width = 0;  ///< at least 256
  int sequences = 0;
};

template <class Real>
class Mlp final : public Model<Real> {
 public:
  static constexpr int classes = 256;

  Mlp(Math<Real>& math, const MlpSizes& sizes);
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }

 private:
  double run_forward(Batch batch) override;
  void run_backward(GradientSink<Real>& sink) override;

  MlpSizes sizes_;
  Workspace<Real> workspace_;
  std::vector<Linear<Real>> linears_;
  std::vector<Real*> activations_;  // input of each linear layer, then the output of the last
  Real* upstream_;
  Real* downstream_;
  int rows_ = 0;   // in the current batch
  Buffer inputs_;  // its bytes, and what they predict
  Buffer targets_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace weft::examples
