#pragma once
// The layers of a GPT and their parameters, without activations. The whole model (gpt.hpp) and a stage of it
// (gpt_stage.hpp) use the same parameter numbers.
//
// A unit is the smallest possible stage: the embedding, a residual branch, or the norm with the head. Units
// are numbered in order of use: embedding 0, attention and MLP of block i 1 + 2i and 2 + 2i, and the head
// last.
//
//   ParameterTable<float> table(math);
//   GptLayers<float> layers(table, sizes);                  // registers all parameters, without memory
//   layers.attention[2].forward(x, saved, sequences);       // once table.place() has set their addresses

#include <vector>

#include "weft-scaling/gpt/model/block.hpp"

namespace weft::examples {

struct GptSizes {
  static constexpr int vocabulary = 256;

  int layers = 0;
  int width = 0;
  int heads = 0;
  int context = 0;
  int sequences = 0;

  int units() const { return 2 * layers + 2; }
};

enum class GptUnit { embedding, attention, mlp, head };

constexpr GptUnit unit_kind(const GptSizes& sizes, int unit) {
  if (unit == 0) return GptUnit::embedding;
  if (unit == sizes.units() - 1) return GptUnit::head;
  return unit % 2 == 1 ? GptUnit::attention : GptUnit::mlp;
}
/// The block of a unit that is an attention or an MLP.
constexpr std::size_t block_of(int unit) {
  return static_cast<std::size_t>((unit - 1) / 2);
}

template <class Real>
class GptLayers {
  std::vector<int> firsts_;  // first of all: filled as the layers register

 public:
  GptLayers(ParameterTable<Real>& table, const GptSizes& sizes);

  /// The first parameter of each unit, and behind the last the number of parameters.
  const std::vector<int>& firsts() const { return firsts_; }

  Embedding<Real> embedding;
  std::vector<AttentionBranch<Real>> attention;
  std::vector<MlpBranch<Real>> mlp;
  LayerNorm<Real> norm;
  Linear<Real> head;

 private:
  ParameterTable<Real>& next_unit(ParameterTable<Real>& table);
};

}  // namespace weft::examples
