#include "weft-plan/scale/model.hpp"

#include <array>

#include "weft-plan/scale/unknown_name.hpp"
#include "weft/core/error.hpp"

namespace weft::scale {

std::int64_t Model::layer_matrices() const {
  return 2 * hidden * hidden + 2 * hidden * kv_width() + (gated ? 3 : 2) * hidden * ffn;
}

/// Beside matrices: two norms; and in layers with biases those of four linear layers.
std::int64_t Model::layer_parameters() const {
  const std::int64_t biases = hidden + 2 * kv_width() + hidden + ffn + hidden;
  return layer_matrices() + (gated ? 2 * hidden : 4 * hidden + biases);
}

std::int64_t Model::parameters() const {
  const std::int64_t positions = gated ? 0 : sequence * hidden;  // gated models have rotary ones
  return layers * layer_parameters() + (tied ? 1 : 2) * vocabulary * hidden + positions;
}

double Model::layer_operations(double sequences) const {
  const double tokens = sequences * static_cast<double>(sequence);
  return 2 * tokens * static_cast<double>(layer_matrices()) +
         4 * tokens * static_cast<double>(sequence) * static_cast<double>(hidden);
}

double Model::logits_operations(double sequences) const {
  return 2 * sequences * static_cast<double>(sequence) * static_cast<double>(hidden) *
         static_cast<double>(vocabulary);
}

const std::vector<Model>& known_models() {
  // Brown et al. 2020, table 2.1, with the vocabulary padded as Megatron-LM pads it; Llama 3 herd of models, table 3.
  static const std::vector<Model> models = {
      {"gpt3-175b", 96, 12288, 96, 96, 4 * 12288, 51200, 2048, false, true},
      {"llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, 8192, true, false},
      {"llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, 8192, true, false},
      {"llama3.1-405b", 126, 16384, 128, 8, 53248, 128256, 8192, true, false},
  };
  return models;
}

Model model_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Model& model : known_models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  refuse_name("model", name, names, "give --layers, --hidden, --heads and --vocabulary");
}

void expect_whole(const Model& model) {
  // With these no count of elements is beyond 64 bits.
  constexpr std::int64_t most_layers = 100'000, most_width = 1 << 20, most_sequence = 1 << 28;
  constexpr std::int64_t most_parameters = 1'000'000'000'000'000;
  struct Value {
    const char* name;
    std::int64_t value, most;
  };
  const std::array<Value, 7> values = {{{"layers", model.layers, most_layers},
                                        {"hidden", model.hidden, most_width},
                                        {"heads", model.heads, most_width},
                                        {"kv-heads", model.kv_heads, most_width},
                                        {"ffn", model.ffn, 16 * most_width},
                                        {"vocabulary", model.vocabulary, 16 * most_width},
                                        {"sequence", model.sequence, most_sequence}}};
  for (const Value& one : values) {
    if (one.value < 1 || one.value > one.most)
      throw Error(ErrorKind::usage,
                  text("--", one.name, " ", one.value, " is not a number from 1 to ", one.most));
  }
  if (model.hidden % model.heads != 0)
    throw Error(ErrorKind::usage, text("--heads ", model.heads, " does not divide --hidden ", model.hidden),
                "a head has hidden / heads elements");
  if (model.heads % model.kv_heads != 0)
    throw Error(ErrorKind::usage,
                text("--kv-heads ", model.kv_heads, " does not divide --heads ", model.heads),
                "as many heads share each key");
  if (model.parameters() > most_parameters)
    throw Error(ErrorKind::usage, text("a model of ", model.parameters(), " parameters"),
                text("plan at most ", most_parameters));
}

}  // namespace weft::scale
