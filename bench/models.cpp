#include "models.hpp"

#include <functional>
#include <numeric>

namespace weft::bench {
namespace {

void add_linear(Model& model, const std::string& name, std::int64_t in, std::int64_t out, double tokens,
                bool bias = true) {
  model.add(name + ".weight", {out, in}, tokens);
  if (bias) model.add(name + ".bias", {out}, tokens);
}

void add_norm(Model& model, const std::string& name, std::int64_t width, double positions, bool bias = true) {
  model.add(name + ".weight", {width}, positions);
  if (bias) model.add(name + ".bias", {width}, positions);
}

void add_convolution(Model& model, const std::string& name, std::int64_t in, std::int64_t out,
                     std::int64_t kernel, double pixels) {
  model.add(name + ".conv.weight", {out, in, kernel, kernel}, pixels);
  add_norm(model, name + ".bn", out, pixels);
}

}  // namespace

void Model::add(const std::string& param, std::vector<std::int64_t> shape, double positions) {
  const std::int64_t count =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  params.push_back({param, count, nullptr, std::move(shape)});
  // A multiplication and an addition for each weight and position, for the input's gradient and for its own.
  flops.push_back(4 * static_cast<double>(count) * positions);
}

std::vector<double> Model::ready_seconds(double flops_per_second) const {
  std::vector<double> ready(params.size());
  double done = 0;
  for (std::size_t i = params.size(); i-- > 0;) ready[i] = (done += flops[i]) / flops_per_second;
  return ready;
}

// He et al. 2015, table 1.
Model resnet18(int images) {
  Model model{"ResNet-18", {}, {}};
  add_convolution(model, "conv1", 3, 64, 7, 112.0 * 112 * images);
  std::int64_t in = 64;
  double pixels = 56.0 * 56 * images;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (int block = 0; block < 2; ++block) {
      const std::string name = text("layer", stage + 1, '.', block);
      add_convolution(model, name + ".1", in, width, 3, pixels);
      add_convolution(model, name + ".2", width, width, 3, pixels);
      if (in != width) add_convolution(model, name + ".downsample", in, width, 1, pixels);
      in = width;
    }
    pixels /= 4;
  }
  add_linear(model, "fc", 512, 1000, images);
  return model;
}

// The same table.
Model resnet50(int images) {
  Model model{"ResNet-50", {}, {}};
  add_convolution(model, "conv1", 3, 64, 7, 112.0 * 112 * images);
  std::int64_t in = 64;
  const int blocks[] = {3, 4, 6, 3};
  double pixels = 56.0 * 56 * images;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = text("layer", stage + 1, '.', block);
      add_convolution(model, name + ".1", in, width, 1, pixels);
      add_convolution(model, name + ".2", width, width, 3, pixels);
      add_convolution(model, name + ".3", width, 4 * width, 1, pixels);
      if (block == 0) add_convolution(model, name + ".downsample", in, 4 * width, 1, pixels);
      in = 4 * width;
    }
    pixels /= 4;
  }
  add_linear(model, "fc", 2048, 1000, images);
  return model;
}

// Devlin et al. 2018. Embeddings are looked up, which is next to no work.
Model bert_large(int tokens) {
  Model model{"BERT-large", {}, {}};
  constexpr std::int64_t width = 1024;
  model.add("embeddings.word", {30522, width}, 0);
  model.add("embeddings.position", {512, width}, 0);
  model.add("embeddings.type", {2, width}, 0);
  add_norm(model, "embeddings.norm", width, tokens);
  for (int layer = 0; layer < 24; ++layer) {
    const std::string name = text("layer.", layer, '.');
    for (const char* part : {"query", "key", "value", "output"})
      add_linear(model, name + part, width, width, tokens);
    add_norm(model, name + "attention.norm", width, tokens);
    add_linear(model, name + "up", width, 4 * width, tokens);
    add_linear(model, name + "down", 4 * width, width, tokens);
    add_norm(model, name + "norm", width, tokens);
  }
  add_linear(model, "pooler", width, width, 1);
  return model;
}

// Radford et al. 2019, the smallest. Its head is the embedding, whose gradient is complete at the very end.
Model gpt2(int tokens) {
  Model model{"GPT-2", {}, {}};
  constexpr std::int64_t width = 768;
  model.add("wte", {50257, width}, 0);
  model.add("wpe", {1024, width}, 0);
  for (int layer = 0; layer < 12; ++layer) {
    const std::string name = text("h.", layer, '.');
    add_norm(model, name + "ln_1", width, tokens);
    add_linear(model, name + "attn", width, 3 * width, tokens);
    add_linear(model, name + "proj", width, width, tokens);
    add_norm(model, name + "ln_2", width, tokens);
    add_linear(model, name + "fc", width, 4 * width, tokens);
    add_linear(model, name + "out", 4 * width, width, tokens);
  }
  add_norm(model, "ln_f", width, tokens);
  model.flops.back() += 4.0 * 50257 * static_cast<double>(width) * tokens;  // of the head, before all others
  return model;
}

// Touvron et al. 2023, table 2.
Model llama_7b(int tokens) {
  Model model{"Llama-7B", {}, {}};
  constexpr std::int64_t width = 4096;
  constexpr std::int64_t inner = 11008;
  model.add("embed", {32000, width}, 0);
  for (int layer = 0; layer < 32; ++layer) {
    const std::string name = text("layers.", layer, '.');
    for (const char* part : {"q", "k", "v", "o"}) add_linear(model, name + part, width, width, tokens, false);
    for (const char* part : {"gate", "up"}) add_linear(model, name + part, width, inner, tokens, false);
    add_linear(model, name + "down", inner, width, tokens, false);
    add_norm(model, name + "input_norm", width, tokens, false);
    add_norm(model, name + "post_norm", width, tokens, false);
  }
  add_norm(model, "norm", width, tokens, false);
  add_linear(model, "head", width, 32000, tokens, false);
  return model;
}

}  // namespace weft::bench
