#pragma once
// The parameters of well-known models, in the order of registration, and the time of backward for each: all
// that a planner needs.

#include <string>
#include <vector>

#include "weft/gradient/param_layout.hpp"

namespace weft::bench {

struct Model {
  std::string name;
  std::vector<ParamSpec> params;
  std::vector<double> flops;  ///< of backward, by parameter

  ParamLayout layout() const { return {DataType::f32, params}; }
  /// Gradients come from the last parameter to the first, each after its share of the work.
  std::vector<double> ready_seconds(double flops_per_second) const;

  /// @param positions where each weight is used: tokens or pixels of a step
  void add(const std::string& param, std::vector<std::int64_t> shape, double positions);
};

Model resnet18(int images);
Model resnet50(int images);
Model bert_large(int tokens);
Model gpt2(int tokens);
Model llama_7b(int tokens);

}  // namespace weft::bench
