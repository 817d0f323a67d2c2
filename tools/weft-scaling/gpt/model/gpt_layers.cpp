#include "weft-scaling/gpt/model/gpt_layers.hpp"

namespace weft::examples {

template <class Real>
GptLayers<Real>::GptLayers(ParameterTable<Real>& table, const GptSizes& sizes)
    : embedding(next_unit(table), GptSizes::vocabulary, sizes.context, sizes.width, 10, 10),
      norm(
          [&]() -> ParameterTable<Real>& {
            const BlockSizes block{sizes.layers, sizes.width, sizes.heads, sizes.context};
            for (int i = 0; i < sizes.layers; ++i) {
              const std::string name = "block" + std::to_string(i);
              attention.emplace_back(next_unit(table), name + ".attention", block);
              mlp.emplace_back(next_unit(table), name + ".mlp", block);
            }
            return next_unit(table);
          }(),
          "norm", sizes.width),
      head(table, "head", sizes.width, GptSizes::vocabulary, 0, Linear<Real>::Bias::none) {
  next_unit(table);
}

template <class Real>
ParameterTable<Real>& GptLayers<Real>::next_unit(ParameterTable<Real>& table) {
  firsts_.push_back(static_cast<int>(table.infos().size()));
  return table;
}

template class GptLayers<float>;
template class GptLayers<double>;

}  // namespace weft::examples
