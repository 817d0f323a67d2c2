#pragma once
// A stage of a GPT whose parameters and gradients belong to ShardedParams, with one unit for each stage of
// the device.
//
//   const StageUnits units(layers.firsts(), plan.cut, reduced_order(schedule, device));
//   zero::ShardedParams params(replicas, layout_of(units.parameters),
//                              {.stage = 3, .units = units.firsts});
//   ShardedStage<float> stage(layers, table, sizes, options, params, units);

#include <optional>

#include "weft-scaling/gpt/pipeline/gpt_stage.hpp"
#include "weft/zero/sharded_params.hpp"

namespace weft::examples {

/// The model parameters of a device. The stage whose gradients are complete first comes last, because
/// gradients are sent from the last parameter to the first.
struct StageUnits {
  /// @param unit_firsts GptLayers::firsts()
  StageUnits(const std::vector<int>& unit_firsts, const std::vector<int>& cut,
             const std::vector<int>& reduced_order);

  ParamId id_of(int parameter) const { return ParamId{ids[static_cast<std::size_t>(parameter)]}; }

  std::vector<int> parameters;  ///< numbers in the model, by number here
  std::vector<int> ids;         ///< the other way round; -1 where another device has it
  std::vector<ParamId> firsts;  ///< of each unit
};

template <class Real>
class ShardedStage final : public GptStage<Real> {
 public:
  ShardedStage(const GptLayers<Real>& layers, ParameterTable<Real>& table, const GptSizes& sizes,
               const GptStageOptions& options, zero::ShardedParams& params, const StageUnits& units);

  /// Waits for the parameters of other ranks, and for a place in the bucket ring that earlier gradients still
  /// occupy.
  bool waits_for_others() const override { return params_.stage().gradients == zero::Placement::sharded; }
  /// Does nothing: params prefetches in the order of the previous step.
  void unshard(const Stream&) override {}
  void await_unshard(const Stream& compute) override;
  void reshard(const Stream&) override { gathered_.reset(); }
  void reduce_gradients(const Stream& compute) override;
  /// Does nothing: the optimizer waits for each bucket when it needs it.
  void await_reduce_gradients(const Stream&) override {}

 private:
  ParameterTable<Real>& table_;
  zero::ShardedParams& params_;
  const StageUnits& units_;
  std::unique_ptr<zero::Gathered> gathered_;
};

}  // namespace weft::examples
