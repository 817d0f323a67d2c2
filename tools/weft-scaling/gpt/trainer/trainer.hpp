#pragma once
// The training loop of one rank: model, parameters and optimizer together, as in a trainer that links weft.
//
// A step draws this rank's share of the global batch, runs forward and backward, averages the gradients while
// backward still runs, and updates the parameters, which start equal on all ranks and stay so. The ZeRO stage
// decides what is whole on every rank and what is sharded; the loop is the same. All memory is on the
// communicator's device. A share of several batches is processed one by one, and gradients are accumulated.
// One thread uses a trainer; construction and step() are collective over `comm`.
//
//   Trainer<float> trainer(comm, model_spec("gpt-ref"), text, {.share = {comm.rank(), comm.size()}});
//   for (int step = 0; step < 40; ++step) trainer.step();
//   double loss = trainer.held_out_loss(0, 16);

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft-scaling/gpt/data/text.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"
#include "weft-scaling/gpt/trainer/schedule.hpp"
#include "weft/weft.hpp"

namespace weft::examples {

/// Which part of the global batch a rank works on. Not always the communicator's: a trainer that does not
/// communicate still takes its own share.
struct Share {
  int rank = 0;
  int ranks = 1;
};

/// The spec as weft's own type.
zero::Optimizer optimizer_of(const OptimizerSpec& spec);

/// The options with groups, where they have none and the optimizer decays weights: matrices decay, vectors
/// (biases, gains) do not.
zero::ShardedOptimizerOptions with_groups(zero::ShardedOptimizerOptions options, const OptimizerSpec& spec,
                                          const ParamLayout& layout);

/// The batches of a step that a rank takes; the first ranks have one more where they do not divide evenly.
struct Batches {
  std::int64_t first = 0;
  int count = 0;
};
Batches batches_of(const Share& share, int all);

struct TrainerOptions {
  Share share;
  int micro_steps = 1;  ///< batches that each rank takes, where `batches` is 0
  /// How many batches a step has. All ranks share them out: any number of ranks then learns the same, apart from
  /// rounding.
  int batches = 0;
  std::int64_t steps = 40;  ///< length of the learning-rate schedule
  std::uint64_t seed = 1;
  /// The ZeRO stage, and how gradients are reduced. The units come from the model.
  zero::ShardedOptions sharding{.stage = 0};
  zero::ShardedOptimizerOptions stepping{};  ///< clipping, offload
  /// In place of the model's own rule; its weight decay is then of all parameters.
  std::optional<zero::Optimizer> rule{};
  std::shared_ptr<Trace> trace{};  ///< records what the compute stream works on
};

template <class Real>
class Trainer {
 public:
  Trainer(Communicator comm, const ModelSpec& spec, const Text& text, const TrainerOptions& options);
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  /// @returns the training loss of this rank's share, in nats per byte, weighted so that the mean over ranks is that
  /// over all batches
  double step();
  std::int64_t steps_done() const;

  /// For checkpoints. Its state and steps_done() are all that a training goes on from: data follow the steps.
  zero::ShardedOptimizer& optimizer();
  const Stream& compute() const;
  /// So many steps were done when the optimizer's state was saved.
  void go_on_after(std::int64_t steps);

  /// The mean loss over the sequences of one batch, from `first` on, of `count` held-out ones. Collective.
  double held_out_loss(std::int64_t first, std::int64_t count);
  /// Sequences that one held_out_loss() call evaluates.
  int sequences() const;

  /// A copy of all parameters, one after the other without gaps. Collective.
  std::vector<Real> parameters();
  /// Where they lie, in the order of the layout, in stage 0, for what changes them between steps. compute() then waits for the last update.
  std::vector<View> parameters_in_place();
  const GradientReducer& reducer() const;
  /// zero::ShardedParams::exposed_seconds().
  double exposed_seconds() const;
  /// GradientReducer::account(). Collective.
  StepHistory account();
  std::uint64_t wire_bytes() const;
  /// Bytes of parameters, gradients, optimizer state, activations and scratch.
  std::int64_t held_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::examples
