#pragma once
// Clipping by the norm of all gradients, loss scaling, and a test for NaN, for trainers that reduce with a
// GradientReducer and have an optimizer of their own. ShardedOptimizer takes the same options and does it by
// itself, in the pass that updates.
//
// The norm is summed exactly: it does not depend on buckets, ranks or sharding. One thread at a
// time uses it, which is an Error otherwise. A reducer has one, and must outlive it. Construction and step() are collective.
//
//   zero::GradientScaler scaler(comm, reducer, {.clip_norm = 1.0});
//   for (const Batch& batch : data) {
//     reducer.begin_step();
//     ... backward, from loss * scaler.loss_scale()
//     reducer.finish_step(compute);
//     if (!scaler.step(compute).skipped) optimizer.step(reducer.gradients(), compute);
//   }
//
// Price: a read of this rank's means for the norm, a read and a write of them where they are scaled, a pass over
// its gradients that counts NaN (ReducerOptions::count_bad_values), and an all_reduce of 184 bytes where means
// are sharded.
//
// WRONG: optimizer.step() before scaler.step(): it would see gradients that are scaled and not clipped.

#include <memory>
#include <optional>

#include "weft/gradient/gradient_reducer.hpp"
#include "weft/zero/loss_scaler.hpp"

namespace weft::zero {

/// What a step does where gradients of any rank are NaN or infinite. Nothing has changed then but the loss
/// scale: parameters, moments and the number of steps are as before.
enum class NonFinite {
  refuse,     ///< throws Error (usage), on every rank, that names the rank and its first such parameter
  skip_step,  ///< the same as a warning; StepResult::skipped is set
};

/// The same on every rank.
struct GradientScalerOptions {
  /// Gradients with a larger L2 norm over all parameters are scaled down to this norm. nullopt: no clipping.
  std::optional<double> clip_norm{};
  /// Dynamic loss scaling for 16-bit gradients. nullopt: gradients are used as they are.
  std::optional<LossScalerOptions> loss_scale{};
  /// nullopt: skip_step with loss scaling, which does not go with refuse; else refuse.
  std::optional<NonFinite> non_finite{};
};

struct StepResult {
  bool skipped = false;          ///< some rank had NaN or infinite gradients: nothing changed
  std::optional<double> norm{};  ///< norm of the averaged gradients of the whole model, unscaled, before
                                 ///< clipping; ShardedOptimizer: only where its options need it
};

class GradientScaler {
 public:
  /// @param comm the reducer's @throws Error (usage) for options that are out of range or exclude each other;
  /// (mismatch) where ranks have other options
  GradientScaler(Communicator comm, GradientReducer& reducer, GradientScalerOptions options);
  ~GradientScaler();
  GradientScaler(GradientScaler&&) noexcept;

  /// After finish_step() of an exchanged step: takes the loss scale away and clips, in the order of `compute`.
  /// Blocks until the norm is known. @throws Error (usage) as NonFinite::refuse says, and where gradients
  /// overflow at the smallest loss scale
  StepResult step(const Stream& compute);
  /// The factor to multiply the loss by; 1 without loss scaling.
  double loss_scale() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::zero
