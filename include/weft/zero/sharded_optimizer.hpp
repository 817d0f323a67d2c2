#pragma once
// The optimizer of ShardedParams: every rank updates the parameters whose state it keeps, and the others get
// them before they are next used.
//
// `step` ends the exchange of gradients. Without clipping and loss scaling each bucket is updated as soon as
// its means are there, and leaves for the other ranks at once; with either, the norm of all gradients decides
// first, which blocks the host until it is known. That norm is summed exactly: it is the same for every
// stage, bucket size and number of threads, and with it are the parameters.
//
// Where a model is cut into parts (a pipeline), each part has ShardedParams and a ShardedOptimizer of its own
// over the ranks that share it. The norm, overflow and with it the loss scale are then of all parts, by one
// more sum over `whole_model`, exact like the other: updates are bitwise those of the model in one piece.
//
// Parameters of 16 bits have f32 masters: whole ones, or (bf16) the lower halves only, which with the
// parameters make up the master. One thread uses it, the one of its ShardedParams, which must outlive it;
// before it goes, synchronize `compute`.
//
//   zero::ShardedOptimizer adam(params, zero::AdamW{.learning_rate = 3e-4}, {.clip_norm = 1.0});
//   zero::StepResult result = adam.step(compute, 3e-4 * schedule(step));
//
// Where device memory is short, a part of the state lies on the host, in memory or in a file, and is updated
// there (offload.hpp).
//
// With loss scaling:  loss * adam.loss_scale() is what backward starts from.
//
// WRONG: an optimizer that looks at whole tensors (LAMB, Muon): a shard does not have them. Reduce with
// GradientReducer and step by tensor instead.
// WRONG: whole_model made of the ranks that share a part: an Error (mismatch) when the optimizer is made.

#include <memory>
#include <optional>

#include "weft/zero/loss_scaler.hpp"
#include "weft/zero/offload.hpp"
#include "weft/zero/optimizer.hpp"
#include "weft/zero/sharded_params.hpp"

namespace weft::zero {

/// Of 16-bit parameters.
enum class Master {
  f32,    ///< 4 bytes a parameter
  split,  ///< bf16: the 16 bits that the parameter lacks
};

struct ShardedOptimizerOptions {
  /// Gradients longer than this are shortened to it (L2 norm over all parameters). None: not.
  std::optional<double> clip_norm{};
  /// Of 16-bit gradients. None: they are taken as they are, and NaN reaches the parameters.
  std::optional<LossScalerOptions> loss_scale{};
  Master master = Master::f32;
  Offload offload{};
  /// Of a model in parts: the ranks that together have all of it, this one among them, each from another
  /// part and all of the same rank in their part's ShardedParams, such as the devices of one pipeline. With
  /// it, construction is collective over them, and so is step() where it clips or scales; else nothing waits.
  std::optional<Communicator> whole_model{};
  /// Left out of norm and overflow, for another copy of the same parameter is in them: of tied weights, all
  /// copies but one. The same on every rank of this part.
  std::vector<ParamId> counted_elsewhere{};
};

struct StepResult {
  bool skipped = false;          ///< NaN or infinite gradients on some rank: nothing changed
  std::optional<double> norm{};  ///< of the means of the whole model, unscaled, before clipping; where asked
};

class ShardedOptimizer {
 public:
  /// Masters are taken from the parameters: load them before. @throws Error (usage) for what cannot be;
  /// (mismatch) where parts of a model clip or scale differently, or whole_model is of other ranks than those
  ShardedOptimizer(ShardedParams& params, const Optimizer& optimizer, ShardedOptimizerOptions options = {});
  ~ShardedOptimizer();
  ShardedOptimizer(ShardedOptimizer&&) noexcept;

  /// Says the rate of the step that the next backward ends, so that what is offloaded is updated behind it.
  /// With clipping and loss scaling that waits for step() all the same. @throws Error (usage) when it was
  /// said before, for the same step
  void begin_step(double learning_rate);
  /// From now on this share of the state is off the device (Offload::share), and this share of that in the
  /// file (Offload::file_share; none: as before). Between steps, when `compute` has passed the last; blocks.
  /// @throws Error (usage) within a step or outside 0 to 1, (system) where memory or the disk is short
  void offload(double share, std::optional<double> file_share = std::nullopt);
  /// Collective. The gradients' exchange (finish_step), the update on `compute`, and the way of new
  /// parameters to other ranks, which goes on beside what follows; so do updates on the host. After
  /// begin_step, `learning_rate` is that one or left out. @throws Error (usage) for another
  StepResult step(const Stream& compute, std::optional<double> learning_rate = std::nullopt);

  /// What to multiply the loss by; 1 without loss scaling.
  double loss_scale() const;
  /// Steps that changed parameters.
  std::int64_t steps() const;
  /// Bytes of masters and moments on this rank's device.
  std::int64_t state_bytes() const;
  /// Bytes of pinned host memory: of what is offloaded, with parameters and staging.
  std::int64_t host_bytes() const;
  /// Bytes of this rank's file.
  std::int64_t file_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::zero
