#include "weft-scaling/gpt/pipeline/sharded_stage.hpp"

#include "weft/core/copy.hpp"

namespace weft::examples {

StageUnits::StageUnits(const std::vector<int>& unit_firsts, const std::vector<int>& cut,
                       const std::vector<int>& reduced_order)
    : ids(static_cast<std::size_t>(unit_firsts.back()), -1) {
  const auto first_of = [&](int stage) {
    return unit_firsts[static_cast<std::size_t>(cut[static_cast<std::size_t>(stage)])];
  };
  for (auto reduced = reduced_order.rbegin(); reduced != reduced_order.rend(); ++reduced) {
    const int stage = *reduced;
    firsts.push_back(ParamId{static_cast<int>(parameters.size())});
    for (int parameter = first_of(stage); parameter < first_of(stage + 1); ++parameter) {
      ids[static_cast<std::size_t>(parameter)] = static_cast<int>(parameters.size());
      parameters.push_back(parameter);
    }
  }
}

template <class Real>
ShardedStage<Real>::ShardedStage(const GptLayers<Real>& layers, ParameterTable<Real>& table,
                                 const GptSizes& sizes, const GptStageOptions& options,
                                 zero::ShardedParams& params, const StageUnits& units)
    : GptStage<Real>(layers, table, sizes, options), table_(table), params_(params), units_(units) {}

template <class Real>
void ShardedStage<Real>::await_unshard(const Stream& compute) {
  const int unit = params_.unit_of(units_.id_of(this->first_parameter()));
  gathered_ = std::make_unique<zero::Gathered>(params_.gather(unit, compute));
  for (int parameter = this->first_parameter(); parameter < this->end_parameter(); ++parameter)
    table_.place(parameter, static_cast<Real*>((*gathered_)[units_.id_of(parameter)].data()));
}

template <class Real>
void ShardedStage<Real>::reduce_gradients(const Stream& compute) {
  for (int parameter = this->end_parameter(); parameter-- > this->first_parameter();) {
    const ParamId id = units_.id_of(parameter);
    copy(params_.gradient(id, compute), this->gradient(parameter), compute);
    params_.mark_ready(id, compute);
  }
}

template class ShardedStage<float>;
template class ShardedStage<double>;

}  // namespace weft::examples
