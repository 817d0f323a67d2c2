#pragma once
// The optimizer of ShardedParams: every rank updates the parameters whose optimizer state it keeps, and sends
// them to the other ranks before they are next used.
//
// `step` finishes the reduction of gradients. Without clipping and loss scaling it updates each bucket as
// soon as the bucket is reduced and gathers it at once. With either it needs the norm of all gradients first,
// and blocks the host until the norm is known. The norm is summed exactly: it is the same for every stage,
// bucket size and number of threads, and so are the parameters.
//
// Where a model is split into parts (a pipeline), each part has ShardedParams and a ShardedOptimizer of its
// own over the ranks that share the part. The norm, the overflow test and the loss scale are then those of
// all parts, by one more exact sum over `whole_model`: updates are bitwise those of the model in one piece.
//
// 16-bit parameters have f32 masters: whole ones, or (bf16) only their lower halves, which make up the master
// together with the parameters. One thread at a time uses the optimizer and its ShardedParams: a call while another
// thread is in one is an Error that names both. ShardedParams have one optimizer at a time.
// ShardedParams must outlive the optimizer; synchronize `compute` before the optimizer is destroyed.
//
//   zero::ShardedOptimizer adam(params, zero::AdamW{.learning_rate = 3e-4}, {.clip_norm = 1.0});
//   zero::StepResult result = adam.step(compute, 3e-4 * schedule(step));
//
// Where device memory is short, a part of the state lies on the host, in memory or in a file, and is updated
// there (offload.hpp).
//
// Groups of parameters have options of their own, and may be frozen (param_groups.hpp).
//
// With loss scaling, backward starts from loss * adam.loss_scale().
//
// NaN and infinite gradients: a step that knows the norm knows of them before it changes anything. It then
// throws, or skips the step, as NonFinite says. A step without clipping and loss scaling does not look, unless
// NonFinite is given: NaN then reaches the parameters.
//
// Rules that need whole tensors (optimizer.hpp) go over the shard twice, with a collective between: parameters are
// gathered after the second pass. LAMB's and LARS's step() blocks the host until the collective is done.
//
// WRONG: offloading the state of such a rule. The constructor throws Error (usage).
// WRONG: whole_model made of the ranks that share a part. The constructor throws Error (mismatch).

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "weft/checkpoint/piece.hpp"
#include "weft/zero/gradient_scaler.hpp"
#include "weft/zero/offload.hpp"
#include "weft/zero/optimizer.hpp"
#include "weft/zero/param_groups.hpp"
#include "weft/zero/sharded_params.hpp"

namespace weft::zero {

/// How the f32 master of a 16-bit parameter is kept.
enum class Master {
  f32,    ///< whole: 4 bytes for each parameter
  split,  ///< bf16 only: the lower 16 bits, which the parameter lacks; 2 bytes for each parameter
};

struct ShardedOptimizerOptions {
  /// As in GradientScalerOptions.
  std::optional<double> clip_norm{};
  std::optional<LossScalerOptions> loss_scale{};
  /// nullopt: skip_step with loss scaling, which does not go with refuse; refuse with clipping; without either
  /// gradients are not looked at. Price where they are: one pass over each rank's gradients, which says whose
  /// they were (ReducerOptions::count_bad_values), and without clipping and scaling the norm's.
  std::optional<NonFinite> non_finite{};
  Master master = Master::f32;
  Offload offload{};
  /// nullopt: the optimizer's own options for all trained parameters. What groups freeze is
  /// ShardedOptions::frozen, too.
  std::optional<ParamGroups> groups{};
  /// For a model in parts: one rank of each part, this rank among them, such as the devices of one pipeline.
  /// All must have the same rank in their part's ShardedParams. Construction is then collective over these
  /// ranks, and so is step() where it clips or scales; without clipping and scaling step() does not wait for
  /// them.
  std::optional<Communicator> whole_model{};
  /// Parameters left out of the norm and the overflow test, because another copy of the same parameter
  /// counts: for tied weights, all copies but one. The same on every rank of this part.
  std::vector<ParamId> counted_elsewhere{};
};

class ShardedOptimizer {
 public:
  /// Collective. Copies the masters from the parameters: load the parameters before.
  /// @throws Error (usage) for options that exclude each other or are out of range, and for what the rule cannot do;
  /// (mismatch) where ranks have other rules or options (Offload may differ), or whole_model is made of the wrong ranks
  ShardedOptimizer(ShardedParams& params, const Optimizer& optimizer, ShardedOptimizerOptions options = {});
  ~ShardedOptimizer();
  ShardedOptimizer(ShardedOptimizer&&) noexcept;

  /// Announces the learning rate of this step before backward, so that the host updates the offloaded part
  /// behind backward. With clipping or loss scaling the update still waits for step().
  /// @throws Error (usage) when called twice for one step
  void begin_step(double learning_rate);
  /// Sets the rate factor of a group from the next step on. Call it between steps, with the same factor on
  /// every rank: ranks do not compare it.
  /// @throws Error (usage) after begin_step, for a name that is no group's, for a frozen group, and unless the
  /// factor is finite and 0 or more
  void set_rate_factor(std::string_view group, double factor);
  /// Moves state: from now on this share of it is off the device (Offload::share), and `file_share` of that
  /// lies in the file (Offload::file_share; nullopt: as before). Call it between steps, when `compute` has
  /// finished the last one; blocks.
  /// @throws Error (usage) within a step or outside 0 to 1, (system) where memory or disk space is short
  void offload(double share, std::optional<double> file_share = std::nullopt);
  /// Collective. Finishes the reduction of gradients, updates on `compute`, and starts to gather the new
  /// parameters. The gathers, and updates on the host, go on beside the work that follows. After begin_step,
  /// `learning_rate` is the announced rate or left out.
  /// @throws Error (usage) for another rate; for NaN and infinite gradients, where NonFinite::refuse says so;
  /// and where gradients overflow at the smallest loss scale
  StepResult step(const Stream& compute, std::optional<double> learning_rate = std::nullopt);

  /// Goes on from parameters that the program has changed between steps where they lie, on every rank alike: their f32
  /// masters get the new values, where they differ from what a master is rounded to. Without masters there is nothing
  /// to do. @throws Error (usage) within a step, and where state is offloaded
  void take_parameters(const Stream& compute);

  /// What a later run goes on from, with any stage, number of ranks, buckets and offload. Pieces: this rank's share of parameters
  /// ("NAME"), of masters ("NAME/master", f32) and of moments ("NAME/exp_avg", "NAME/exp_avg_sq", "NAME/momentum_buffer"); rank 0 adds
  /// frozen parameters, and each rank what GradientReducer::state() gives. Values: the number of steps, the loss scale, the groups' rate factors. All ranks call it; it blocks until the last
  /// step is in them. Valid until the next step or offload(), which wait for a checkpoint::Saver that reads them behind the training.
  /// @throws Error (usage) within a step, and while a unit is held
  checkpoint::State state(const Stream& compute);
  /// Collective. Goes on from what state() gave, whichever ranks gave it: checkpoint::Checkpoint fits. Parameters need not be loaded before.
  /// @throws Error (usage) as state(), and for values of another kind of training; (mismatch) where ranks load different ones; what
  /// `from` throws. Parameters and state are then of no use
  template <class Checkpoint>
  void load_state(const Checkpoint& from, const Stream& compute) {
    load_state(
        from.values(), [&from](std::span<const checkpoint::Wanted> wanted) { from.read(wanted); }, compute);
  }
  /// The same from anywhere. @param read fills the pieces, before it returns
  void load_state(const checkpoint::Values& values, const checkpoint::Reader& read, const Stream& compute);

  /// The factor to multiply the loss by; 1 without loss scaling.
  double loss_scale() const;
  /// How many steps changed parameters.
  std::int64_t steps() const;
  /// Bytes of masters and moments on this rank's device.
  std::int64_t state_bytes() const;
  /// Bytes of pinned host memory for the offloaded state, its parameters and staging.
  std::int64_t host_bytes() const;
  /// Size of this rank's file in bytes.
  std::int64_t file_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::zero
