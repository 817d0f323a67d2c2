#pragma once
// Optimizers of LibTorch with sharded state: ZeRO stages 1 and 2, in place of torch::optim::AdamW, Adam and SGD.
//
// Each rank keeps the optimizer's state of its part of the parameters, updates that part, and gets the others'.
// From stage 2 on it keeps its part of the gradients, too, beside a few buckets on their way. ZeroOptimizer
// reduces gradients itself: it takes the place of DataParallel, and sets the same hooks.
//
//   #include <weft/torch/zero_optimizer.hpp>
//   weft::torch::ZeroOptimizer optimizer{comm, *net, torch::optim::AdamWOptions(3e-4)};   // was torch::optim::AdamW
//   for (auto& batch : *loader) {
//     optimizer.zero_grad();
//     torch::nll_loss(net->forward(batch.data), batch.target).backward();
//     optimizer.step();
//   }
//
// It is a torch::optim::Optimizer: schedules change the learning rate of its one parameter group, on all ranks alike:
// another rate on another rank is an Error. The constants of the rule stay. Passes of a step but the last run under no_sync().
//
// Parameters become views of weft's memory; they outlive the optimizer. Between steps the program may change them, or
// load others, on all ranks alike. Gradients are weft's as soon as their hook has run: after backward() `.grad` has a
// shape and no values, and what reads or changes it is an Error: ZeroOptions::clip_norm clips in place of
// clip_grad_norm_. zero_grad() before step() leaves the step out. A parameter without a gradient counts as zero, and
// decays. In stage 2 gradients that come before their turn lie aside (ZeroOptions::bucket_ring_bytes).
//
// The arithmetic is weft's (weft/zero/optimizer.hpp): f64, rounded once. The bits do not depend on the stage, and
// are within rounding of torch's. Threads, errors and what is refused are as in weft/torch/data_parallel.hpp, and
// torch::save of the optimizer, whose state no rank has whole.
//
// WRONG: two backward passes before step(), without no_sync() or zero_grad(): an Error on every rank.
// WRONG: ZeroOptimizer and DataParallel on one module: an Error that names a parameter.

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>

#include "weft/torch/data_parallel.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::torch {

struct ZeroOptions {
  int stage = 2;                     ///< 1 or 2
  std::shared_ptr<CommHook> hook{};  ///< how gradients are reduced; all_reduce_hook(), unless it is given
  std::optional<std::size_t> bucket_bytes{};  ///< as in zero::ShardedOptions, and the next two
  std::optional<std::size_t> bucket_ring_bytes{};
  std::optional<Stream> wire{};
  std::optional<double> clip_norm{};  ///< by the norm of all gradients
  InitialValues initial_values = InitialValues::from_rank_0;
  bool broadcast_buffers = true;  ///< after each backward that is not under no_sync()
};

class ZeroOptimizer : public ::torch::optim::Optimizer {
 public:
  /// Collective. @param rule AdamWOptions, AdamOptions or SGDOptions
  /// @throws Error (usage) for amsgrad, dampening, nesterov, other rules, a stage that is not 1 or 2, or a module
  /// that DataParallel refuses; (mismatch) where ranks differ
  ZeroOptimizer(Communicator comm, ::torch::nn::Module& module, const ::torch::optim::OptimizerOptions& rule,
                ZeroOptions options = {});
  ~ZeroOptimizer() override;

  /// Collective. Parameters are the new ones when it returns. @returns the closure's loss
  at::Tensor step(LossClosure closure = nullptr) override;
  [[nodiscard]] NoSync no_sync();
  /// Bytes of masters and moments, and loss scale and norms: weft's optimizer.
  zero::ShardedOptimizer& sharded();
  zero::ShardedParams& params();

  /// @throws Error (usage): see above
  void save(::torch::serialize::OutputArchive& archive) const override;
  void load(::torch::serialize::InputArchive& archive) override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::torch
