#pragma once
// The shape of a dense transformer: what its parameters and its operations are counted from.
//
//   const Model model = model_named("llama3.1-70b");
//   model.parameters(), model.forward_operations(sequences) ...
//
// Plain values, any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::scale {

struct Model {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;    ///< as many as heads, but with grouped-query attention
  std::int64_t ffn = 0;         ///< width of the feed-forward layer, usually 4 x hidden
  std::int64_t vocabulary = 0;  ///< padded, as it is trained
  std::int64_t sequence = 0;    ///< tokens
  bool gated = false;  ///< the feed-forward layer has a third matrix (SwiGLU), and layers have no biases
  bool tied = true;    ///< the embedding is also the matrix of the logits

  std::int64_t head_width() const { return hidden / heads; }
  /// Elements of the keys of a token; of the values as many.
  std::int64_t kv_width() const { return head_width() * kv_heads; }
  /// Elements of a layer's matrices.
  std::int64_t layer_matrices() const;
  std::int64_t layer_parameters() const;
  std::int64_t parameters() const;
  /// Floating-point operations of a layer's forward pass, over whole sequences. Attention counts in full, as
  /// papers count it, also where a causal kernel leaves half of it out.
  double layer_operations(double sequences) const;
  double logits_operations(double sequences) const;
};

/// Models that are known by name: gpt3-175b, llama3.1-8b, llama3.1-70b, llama3.1-405b.
const std::vector<Model>& known_models();
/// @throws Error (usage) for an unknown name, with the nearest one
Model model_named(std::string_view name);
/// @throws Error (usage), which names what is too small or does not divide
void expect_whole(const Model& model);

}  // namespace weft::scale
