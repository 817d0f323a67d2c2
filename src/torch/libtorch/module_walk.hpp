#pragma once
// A module and all below it, in the order of named_parameters() and modules(), in each step. LibTorch's own lists copy every name into a
// map, build the path of each, and take an allocation or two for a parameter. A walk takes one for each module that has others below it.
//
//   walk(module, [](const ::torch::nn::Module& one) { for (const auto& item : own_parameters(one)) ...; return true; });

#include <torch/nn/module.h>

namespace weft::torch::detail {

/// Calls visit(module) for each, itself first, until one call returns false. @returns whether none did
template <class Visit>
bool walk(const ::torch::nn::Module& module, const Visit& visit) {
  if (!visit(module)) return false;
  for (const auto& child : module.children()) {
    if (!walk(*child, visit)) return false;
  }
  return true;
}

/// Those that the module itself has registered, also undefined ones; named_parameters(false) is a copy.
inline const auto& own_parameters(const ::torch::nn::Module& module) {
  struct Protected : ::torch::nn::Module {
    static auto place() { return &Protected::parameters_; }
  };
  return module.*Protected::place();
}

}  // namespace weft::torch::detail
