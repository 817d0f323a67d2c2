#pragma once
// The reference workloads by name. Every benchmark figure of weft is measured with one of them.
//
// A ModelSpec is plain data, so that a file can describe a workload; `model_specs` is the table of the
// built-in ones.
//
//   auto model = make_model<float>("gpt-ref");
//   const ModelSpec& spec = model_spec("gpt-ref");
//   double rate = spec.optimizer.learning_rate * learning_rate(step, {spec.optimizer.warmup_steps, 400});

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weft-scaling/gpt/model/gpt_layers.hpp"
#include "weft-scaling/gpt/model/model.hpp"
#include "weft-scaling/gpt/trainer/schedule.hpp"

namespace weft::examples {

enum class ModelKind { gpt, mlp };

struct ModelSpec {
  std::string name;
  ModelKind kind = ModelKind::gpt;
  int layers = 0;
  int width = 0;
  int heads = 0;      ///< gpt only
  int context = 0;    ///< bytes that a prediction sees; mlp: equal to width
  int sequences = 0;  ///< per rank and step
  OptimizerSpec optimizer;

  int sequence_bytes() const { return context + 1; }
  /// Bytes that one rank predicts in a step.
  int predictions() const { return kind == ModelKind::gpt ? sequences * context : sequences; }
};

std::span<const ModelSpec> model_specs();

/// @throws Error (usage) on an unknown name; the message lists the known ones
const ModelSpec& model_spec(std::string_view name);

/// @throws Error (usage) if it is not a GPT, or the sizes do not fit each other
GptSizes gpt_sizes(const ModelSpec& spec);

/// @param math where the model lives; outlives it. @throws Error (usage) when the sizes do not fit each other
template <class Real>
std::unique_ptr<Model<Real>> make_model(const ModelSpec& spec, Math<Real>& math = host_math<Real>());

template <class Real>
std::unique_ptr<Model<Real>> make_model(std::string_view name) {
  return make_model<Real>(model_spec(name));
}

}  // namespace weft::examples
