#pragma once
// The implementation of PipelineTrainer: the stages of a rank, and their executor.

#include <memory>
#include <optional>
#include <vector>

#include "weft-scaling/gpt/pipeline/pipeline_trainer.hpp"
#include "weft-scaling/gpt/pipeline/sharded_stage.hpp"
#include "weft/pipeline/stage_executor.hpp"

namespace weft::examples {

/// @throws Error (usage) as planned_pipeline()
PipelineTask task_of(const ModelSpec& spec, int ranks, const PipelineOptions& options);

template <class Real>
class PipelineTrainer<Real>::State {
 public:
  State(Communicator communicator, const ModelSpec& spec, const Text& read, const PipelineOptions& given);

  void step();
  double held_out_loss();
  std::vector<Real> parameters();
  bool is_sharded() const { return options.sharding.stage == 3; }
  int device_of(int stage) const { return schedule.device_of[static_cast<std::size_t>(stage)]; }
  /// A stage of this device.
  ShardedStage<Real>& stage(int number) { return *stages[static_cast<std::size_t>(number)]; }
  /// Runs `function` on each stage of this device.
  template <class Function>
  void for_stages(Function function) {
    for (const auto& one : stages) {
      if (one) function(*one);
    }
  }

  Communicator comm;
  const Text& text;
  PipelineOptions options;
  GptSizes sizes;
  PipelineTask task;
  int microbatches;
  Share share;
  Communicator pipeline;  // its ranks are the devices
  Communicator data;      // the ranks with the same stages
  Stream compute;
  std::unique_ptr<Math<Real>> device_math;  // null on the host
  Math<Real>& math;
  ParameterTable<Real> table;
  GptLayers<Real> layers;
  PipelinePlan plan;
  pipeline::Schedule schedule;
  StageUnits units;
  zero::ShardedParams params;
  std::vector<Sequence> batch;
  OptimizerSpec optimizing;
  std::vector<std::unique_ptr<ShardedStage<Real>>> stages;  // by stage; null if another device has it
  std::optional<zero::ShardedOptimizer> optimizer;          // made when the parameters are loaded
  std::optional<pipeline::StageExecutor> executor;
  std::int64_t steps = 0;
  double training_loss = 0;  // on the device of the head
  pipeline::Nanoseconds waited_for_stages = 0;

 private:
  PipelinePlan planned();
  ParamLayout layout() const;
  zero::ShardedOptions sharding() const;
  void load_initial();
  void make_stages();
};

}  // namespace weft::examples
