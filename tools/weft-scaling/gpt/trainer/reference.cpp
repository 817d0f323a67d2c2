#include "weft-scaling/gpt/trainer/reference.hpp"

#include <array>

#include "weft-scaling/gpt/model/gpt.hpp"
#include "weft-scaling/gpt/model/mlp.hpp"
#include "weft/core/error.hpp"

namespace weft::examples {

namespace {

void require(bool holds, const ModelSpec& spec, const char* rule) {
  if (holds) return;
  throw Error(ErrorKind::usage,
              text("model ", spec.name, " with layers ", spec.layers, ", width ", spec.width, ", heads ",
                   spec.heads, ", context ", spec.context, ", sequences ", spec.sequences),
              rule);
}

void check(const ModelSpec& spec) {
  require(spec.layers > 0 && spec.width > 0 && spec.context > 0 && spec.sequences > 0, spec,
          "layers, width, context and sequences must be 1 or more");
  if (spec.kind == ModelKind::gpt) {
    require(spec.heads > 0 && spec.width % spec.heads == 0, spec, "width must be a multiple of heads");
  } else {
    require(spec.width >= 256, spec, "width must be 256 or more: the first 256 outputs are the logits");
    require(spec.context == spec.width, spec, "context must equal width: an input is one byte");
  }
}

}  // namespace

std::span<const ModelSpec> model_specs() {
  static const std::array specs{
      ModelSpec{
          .name = "gpt-ref",
          .kind = ModelKind::gpt,
          .layers = 5,
          .width = 384,
          .heads = 6,
          .context = 128,
          .sequences = 4,
          .optimizer =
              {.learning_rate = 2e-3, .beta1 = 0.6, .beta2 = 0.98, .warmup_steps = 3, .final_fraction = 0.6}},
      ModelSpec{.name = "mlp-8x1024",
                .kind = ModelKind::mlp,
                .layers = 8,
                .width = 1024,
                .context = 1024,
                .sequences = 32,
                .optimizer = {.learning_rate = 5e-4, .beta1 = 0.6, .warmup_steps = 5}},
      ModelSpec{.name = "gpt-tiny",
                .kind = ModelKind::gpt,
                .layers = 2,
                .width = 32,
                .heads = 2,
                .context = 16,
                .sequences = 2,
                .optimizer = {.learning_rate = 3e-3, .warmup_steps = 5}},
  };
  return specs;
}

const ModelSpec& model_spec(std::string_view name) {
  std::string known;
  for (const ModelSpec& spec : model_specs()) {
    if (spec.name == name) return spec;
    known += (known.empty() ? "" : ", ") + spec.name;
  }
  throw Error(ErrorKind::usage, text("unknown model ", name), "allowed are " + known);
}

GptSizes gpt_sizes(const ModelSpec& spec) {
  check(spec);
  require(spec.kind == ModelKind::gpt, spec, "only a GPT can be cut into stages: gpt-ref or gpt-tiny");
  return {.layers = spec.layers,
          .width = spec.width,
          .heads = spec.heads,
          .context = spec.context,
          .sequences = spec.sequences};
}

template <class Real>
std::unique_ptr<Model<Real>> make_model(const ModelSpec& spec, Math<Real>& math) {
  check(spec);
  if (spec.kind == ModelKind::mlp) {
    return std::make_unique<Mlp<Real>>(
        math, MlpSizes{.layers = spec.layers, .width = spec.width, .sequences = spec.sequences});
  }
  return std::make_unique<Gpt<Real>>(math, gpt_sizes(spec));
}

template std::unique_ptr<Model<float>> make_model(const ModelSpec&, Math<float>&);
template std::unique_ptr<Model<double>> make_model(const ModelSpec&, Math<double>&);

}  // namespace weft::examples
