#pragma once
// The training loop of one rank if the model is cut into stages: pipelines of devices, and data-parallel
// ranks with the same stages, under any stage of ZeRO.
//
// Rank r of N = devices x replicas is device r / replicas of pipeline r % replicas. Pipelines take equal shares of
// the batches of a step, microbatch by microbatch. They see the same sequences as ranks without a pipeline would, and
// start from the same parameters. A schedule decides what a device does
// when; gradients are summed over its microbatches, averaged over the replicas, and every device updates the
// parameters of its stages. All memory is on the communicator's device. One thread uses a trainer;
// construction and every call that is not a plain getter are collective over `comm`.
//
//   PipelineTrainer<float> trainer(comm, model_spec("gpt-ref"), text, {.schedule = "zb-h1", .devices = 2});
//   for (int step = 0; step < 40; ++step) trainer.step();
//   const auto each = trainer.sequences();
//   double loss = trainer.held_out_loss(trainer.share().rank * each, 16 * each);

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft-scaling/gpt/pipeline/pipeline_plan.hpp"
#include "weft-scaling/gpt/trainer/trainer.hpp"

namespace weft::examples {

struct PipelineOptions {
  /// As pipeline::make_named() takes it; "auto": units are measured, and what synthesize() finds is executed.
  std::string schedule = "1f1b";
  int devices = 0;              ///< of a pipeline; divides the ranks. 0: all of them
  std::optional<int> chunks{};  ///< stages of a device; default: what the schedule is made for
  int microbatch = 1;           ///< sequences of one
  int batches = 0;              ///< of a step, which all pipelines share out; 0: one for each rank
  bool recompute = false;       ///< nothing of a microbatch is kept from its forward to its backward
  std::int64_t steps = 40;      ///< length of the learning-rate schedule
  std::uint64_t seed = 1;
  zero::ShardedOptions sharding{.stage = 0};  ///< units are the stages
  zero::ShardedOptimizerOptions stepping{};
  std::shared_ptr<Trace>
      trace{};  ///< records what devices compute and wait for, and of "auto" the prediction
};

/// The plan that so many ranks execute; for "auto", the one found for estimated costs.
/// @throws Error (usage) for a model that is no GPT, devices that do not divide the ranks, microbatches that
/// do not divide the sequences, batches that pipelines do not share evenly, and what named_plan() refuses
PipelinePlan planned_pipeline(const ModelSpec& spec, int ranks, const PipelineOptions& options);

template <class Real>
class PipelineTrainer {
 public:
  /// @throws Error (usage) as planned_pipeline()
  PipelineTrainer(Communicator comm, const ModelSpec& spec, const Text& text, const PipelineOptions& options);
  ~PipelineTrainer();
  PipelineTrainer(PipelineTrainer&&) noexcept;

  void step();
  std::int64_t steps_done() const;

  /// For checkpoints. Its state and steps_done() are all that a training goes on from: data follow the steps.
  zero::ShardedOptimizer& optimizer();
  const Stream& compute() const;
  /// So many steps were done when the optimizer's state was saved.
  void go_on_after(std::int64_t steps);

  /// The loss of the last step, the mean over all pipelines, in nats per byte.
  double training_loss();
  /// Mean loss of sequences() held-out sequences of `count`, from `first`, which is the same on all ranks of
  /// a pipeline, as is the result.
  double held_out_loss(std::int64_t first, std::int64_t count);
  /// The pipeline of this rank.
  Share share() const;
  /// Sequences of one step of a pipeline.
  int sequences() const;
  const PipelinePlan& plan() const;

  /// All parameters of the model, one after the other without gaps.
  std::vector<Real> parameters();
  /// How long this device has waited so far for other stages, gradients and parameters.
  double exposed_seconds() const;
  std::uint64_t wire_bytes() const;
  /// Bytes of parameters, gradients, optimizer state, activations and scratch.
  std::int64_t held_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::examples
