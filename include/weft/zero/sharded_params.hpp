#pragma once
// A model's parameters and gradients under any stage of ZeRO, replicated or sharded, with one training loop
// for all stages.
//
// `ShardedParams` owns the parameters and, through a GradientReducer, their gradients. A *unit* is a set of
// consecutive parameters that are gathered at once, such as those of one layer (an FSDP unit). The trainer
// gathers a unit before it uses its parameters and releases it afterwards; it writes gradients where
// `gradient` says and marks them ready. The stage alone decides what a gather does:
//
//   stages 0 to 2   every rank has all parameters: a gather waits until the last step's update has arrived
//   stage 3         a gather all-gathers the unit into a *gather buffer*; gather buffers are reused
//
// Stage 3 prefetches units, within `prefetch_bytes`, in the order in which the last step used them. A step
// that uses them in another order is correct, but waits for its units.
//
// One thread at a time uses it: a call while another thread is in one is an Error that names both. Construction, gather and steps are collective: all ranks gather the same units in the
// same order.
//
//   ParamLayout layout = ParamLayout::of(model.parameters());
//   zero::ShardedParams params(comm, layout, {.stage = 3, .units = {ParamId{0}, ParamId{2}, ParamId{14}}});
//   for (ParamId id : ...) params.load(id, initial(id));                 // the same values on every rank
//   zero::ShardedOptimizer adam(params, zero::AdamW{.learning_rate = 3e-4});
//   for (const Batch& batch : data) {
//     params.begin_step();
//     for (int unit = 0; unit < params.units(); ++unit) {
//       const zero::Gathered full = params.gather(unit, compute);     // released at the end of the scope
//       layer(unit).forward(batch, full);                             // full[id]: where a parameter is now
//     }
//     ... backward: the same from the last unit to the first, writing params.gradient(id, compute) and
//         then calling params.mark_ready(id, compute)
//     adam.step(compute);
//   }
//
// Gradient accumulation: all micro-steps but the last begin with Exchange::no_sync and end with
// finish_step(compute) in place of adam.step(compute).
//
// Frozen parameters are loaded and gathered as the others are. Backward leaves them out: it calls neither
// gradient() nor mark_ready() for them.
//
// WRONG: keeping full[id] beyond the scope of `full`: in stage 3 its gather buffer may hold another unit by
// then.
// WRONG: reading parameters without a gather because the stage replicates them: the last step's update may
// still be on its way.

#include <memory>
#include <optional>
#include <vector>

#include "weft/gradient/gradient_reducer.hpp"
#include "weft/gradient/initial_values.hpp"
#include "weft/zero/stage.hpp"

namespace weft::zero {

struct ShardedOptions {
  int stage = 2;
  /// How gradients are reduced, as in ReducerOptions: all_reduce_hook(), unless it is given.
  std::shared_ptr<CommHook> hook{};
  /// The size of gradient buckets. nullopt: stage 0 plans them from measured steps; the other stages use what
  /// the hook asks for, else 1 MiB within a node and 4 MiB between nodes, in whole parameters.
  std::optional<std::size_t> bucket_bytes{};
  /// Stages 2 and 3: the memory that gradients have before they are reduced, at least the largest bucket.
  /// nullopt: an eighth of the gradients.
  std::optional<std::size_t> bucket_ring_bytes{};
  /// The stream that reduces buckets, and the one that gathers parameters: as ReducerOptions::wire.
  std::optional<Stream> wire{};
  /// Stages 0 and 1 may leave parameters unused; the others refuse.
  Unused unused = Unused::refuse;
  /// As ReducerOptions::count_bad_values. An optimizer that clips or scales counts in any case.
  bool count_bad_values = false;
  /// As ReducerOptions::micro_batches, whose bucket ring stages 2 and 3 have. Not with shard_ranks.
  std::int64_t micro_batches = 0;
  /// Hybrid sharding: state is sharded over so many consecutive ranks (those of a node, say) and replicated
  /// over the other sets of ranks, so that only the reduced shard travels between sets. Must divide the
  /// number of ranks. 0: sharded over all ranks.
  int shard_ranks = 0;
  /// Units (FSDP units): the first parameter of each, ascending from parameter 0. Default: one unit of all
  /// parameters.
  std::vector<ParamId> units{};
  /// Parameters without gradient, optimizer state and bytes on the wire, which keep the values that they are
  /// loaded with. Every rank has them whole, in every stage. The same on all ranks.
  std::vector<ParamId> frozen{};
  /// Stage 3: memory for prefetched units, beside `held_units` gather buffers. Default: one gather buffer.
  /// Each gather buffer has the size of the largest unit.
  std::optional<std::size_t> prefetch_bytes{};
  /// Stage 3: how many units the trainer holds gathered at the same time.
  int held_units = 1;
  /// Stage 3: units of fewer elements stay replicated on every rank.
  std::int64_t whole_below = 0;
  /// Stage 3: this rank's shard of the parameters lies in pinned host memory and is copied to the device when
  /// a unit is gathered.
  bool offload_parameters = false;
  /// Stages 2 and 3: this rank's shard of the gradients lies in pinned host memory, where the host's update
  /// reads it without a copy.
  bool offload_gradients = false;
  /// What happens to the values that load() is given: the first gather or step compares them over all ranks,
  /// or load() broadcasts those of rank 0.
  InitialValues initial_values = InitialValues::compare;
};

class Gathered;

class ShardedParams {
 public:
  class State;

  /// Collective.
  /// @throws Error (usage) for a stage outside 0 to 3, units that do not ascend, frozen parameters that are
  /// unknown, twice there or all, or fewer elements than ranks; (mismatch) where ranks differ
  ShardedParams(Communicator comm, const ParamLayout& layout, ShardedOptions options = {});
  ~ShardedParams();
  ShardedParams(ShardedParams&&) noexcept;

  const Stage& stage() const;
  /// All parameters. Without frozen ones it is the layout in use: shards need aligned buckets, so offsets may
  /// differ from those of the layout that was given. With frozen ones it is the layout that was given;
  /// trained parameters then lie as reducer().layout() says, which has them alone, numbered from 0.
  const ParamLayout& layout() const;
  int units() const;
  int unit_of(ParamId id) const;

  /// Sets this rank's part of a parameter from the whole parameter's `values`, in host memory or on the
  /// device. All ranks load the same parameters, between steps. Collective with InitialValues::from_rank_0.
  /// With InitialValues::compare the next gather or step throws Error (mismatch), on every rank, that names
  /// the first parameter in which two ranks differ.
  void load(ParamId id, ConstView values);
  /// A copy of the whole parameter on the host, in the layout's data type. Collective; blocks.
  Buffer whole(ParamId id);

  /// Gathers a unit: later work of `compute` finds its parameters whole. With an inline host stream they are
  /// whole when the call returns.
  /// @throws Error (usage) when the unit is held already, or more units are held than there are gather
  /// buffers
  Gathered gather(int unit, const Stream& compute);
  /// Gathers all units, in stages that replicate parameters. @throws Error (usage) in stage 3
  void gather_all(const Stream& compute);

  /// GradientReducer::begin_step.
  void begin_step(Exchange exchange = Exchange::now);
  /// Whether backward adds to the gradient; otherwise it overwrites.
  bool accumulating() const;
  bool is_frozen(ParamId id) const;
  /// Where backward writes the gradient in this step; see GradientReducer::gradient.
  /// @throws Error (usage) for a frozen parameter, as mark_ready() does
  View gradient(ParamId id, const Stream& compute);
  void mark_ready(ParamId id, const Stream& compute);
  void poll();
  /// Ends a micro-step that was begun with Exchange::no_sync. ShardedOptimizer::step() ends the last one.
  /// @throws Error (usage) in the last one
  void finish_step(const Stream& compute);

  /// Over the trained parameters alone: its ParamIds are those of reducer().layout().
  GradientReducer& reducer();
  const GradientReducer& reducer() const;
  /// Seconds that the compute streams have waited for gradients and parameters so far.
  double exposed_seconds() const;
  /// Payload bytes that this rank has sent for gradients and parameters.
  std::uint64_t wire_bytes() const;
  /// Bytes of parameters, gradients (or their bucket ring) and gather buffers on this rank's device.
  std::int64_t held_bytes() const;
  /// Bytes of pinned host memory for the offloaded part; held_bytes() does not count them.
  std::int64_t host_bytes() const;

  /// For ShardedOptimizer.
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// Holds a unit gathered. Movable; its destructor releases the unit.
class Gathered {
 public:
  Gathered(Gathered&& other) noexcept;
  Gathered& operator=(Gathered&&) = delete;
  ~Gathered();

  /// The whole parameter. @throws Error (usage) when the parameter belongs to another unit
  View operator[](ParamId id) const;

 private:
  friend class ShardedParams;
  Gathered(ShardedParams::State& params, int unit, Stream compute);

  ShardedParams::State* params_;
  int unit_;
  Stream compute_;
};

}  // namespace weft::zero
