#pragma once
// A model's parameters and gradients under any stage of ZeRO: whole or in shards, with one loop around them.
//
// `ShardedParams` owns the parameters and, through a GradientReducer, their gradients. The trainer gathers a
// group of parameters before it uses them and lets it go after; it writes gradients where `gradient` says and
// marks them ready. What that costs depends on the stage alone: where parameters are whole on every rank, a
// gather waits for what the last step made of them; in stage 3 it brings the other ranks' parts into a slot,
// from which other groups drive them out. Groups that will be needed next, as the last step used them, are
// gathered ahead within `prefetch_bytes`; another order is served as it comes.
//
// One thread uses it. Construction, gather, and steps are collective: all ranks gather the same groups in the
// same order.
//
//   ParamLayout layout = ParamLayout::of(model.parameters());
//   zero::ShardedParams params(comm, layout, {.stage = 3, .groups = {ParamId{0}, ParamId{2}, ParamId{14}}});
//   for (ParamId id : ...) params.load(id, initial(id));                 // the same values on every rank
//   zero::ShardedOptimizer adam(params, zero::AdamW{.learning_rate = 3e-4});
//   for (const Batch& batch : data) {
//     params.begin_step();
//     for (int group = 0; group < params.groups(); ++group) {
//       const zero::Gathered full = params.gather(group, compute);     // let go at the end of the scope
//       layer(group).forward(batch, full);                             // full[id]: where a parameter is now
//     }
//     ... backward: the same from the last group to the first, writing params.gradient(id, compute) and
//         then calling params.mark_ready(id, compute)
//     adam.step(compute);
//   }
//
// WRONG: keeping full[id] beyond the scope of `full`: in stage 3 another group is there now.
// WRONG: reading parameters without a gather because the stage has them whole: the last step's parts may
// still be on the wire.

#include <memory>
#include <optional>
#include <vector>

#include "weft/gradient/gradient_reducer.hpp"
#include "weft/zero/stage.hpp"

namespace weft::zero {

struct ShardedOptions {
  int stage = 2;
  /// How gradients are reduced. `means` and `plan` are the stage's to say, and without `bucket_bytes` buckets
  /// are planned in stage 0; else they are of 1 MiB within a node and 4 MiB between nodes, or what the hook
  /// asks for, and of whole parameters. In stages 2 and 3 `window_bytes` is an eighth of the gradients where
  /// it is not given.
  ReducerOptions reducer{};
  /// Hybrid sharding: shards lie within so many consecutive ranks (those of a node, say) and are replicated
  /// over the others, so that only a part's mean travels between. Divides the number of ranks. 0: within all.
  int shard_ranks = 0;
  /// What is gathered at once: the first parameter of each group, ascending from the first of all. Default:
  /// all are one group.
  std::vector<ParamId> groups{};
  /// Stage 3: memory for groups gathered ahead, beside `held_groups` of the largest. Default: one of them.
  std::optional<std::size_t> prefetch_bytes{};
  /// Stage 3: how many groups the trainer holds at the same time.
  int held_groups = 1;
  /// Stage 3: groups of fewer elements stay whole on every rank.
  std::int64_t whole_below = 0;
  /// Stage 3: this rank's parts of parameters lie in pinned host memory, and go up when a group is gathered.
  bool offload_parameters = false;
  /// Stages 2 and 3: so do its parts of gradients; there the host updates them without bringing them down.
  bool offload_gradients = false;
};

class Gathered;

class ShardedParams {
 public:
  class State;

  /// Collective. @throws Error (usage) for a stage outside 0 to 3, groups that are none, fewer elements than
  /// ranks; (mismatch) where ranks differ
  ShardedParams(Communicator comm, const ParamLayout& layout, ShardedOptions options = {});
  ~ShardedParams();
  ShardedParams(ShardedParams&&) noexcept;

  const Stage& stage() const;
  /// Of buckets that begin where shards can: offsets may differ from those of the layout that was given.
  const ParamLayout& layout() const;
  int groups() const;
  int group_of(ParamId id) const;

  /// Sets this rank's part of a parameter, of whole `values` in host memory or on the device. The same on
  /// all ranks; between steps.
  void load(ParamId id, ConstView values);
  /// A copy of the whole parameter, of the layout's data type, on the host. Collective; blocks.
  Buffer whole(ParamId id);

  /// Later work of `compute` finds the group's parameters whole. For a host stream that is inline they are so
  /// when the call returns. @throws Error (usage) when the group is held, or when more groups are held than
  /// `held_groups`, naming them
  Gathered gather(int group, const Stream& compute);
  /// All of them, where they are whole on every rank. @throws Error (usage) in stage 3
  void gather_all(const Stream& compute);

  /// GradientReducer::begin_step.
  void begin_step(Exchange exchange = Exchange::now);
  /// Whether backward adds to what is there; else it overwrites.
  bool accumulating() const;
  /// Where backward writes the gradient in this step; see GradientReducer::gradient.
  View gradient(ParamId id, const Stream& compute);
  void mark_ready(ParamId id, const Stream& compute);
  void poll();

  GradientReducer& reducer();
  const GradientReducer& reducer() const;
  /// What the compute streams have waited for gradients and parameters so far.
  double exposed_seconds() const;
  /// Payload bytes this rank has sent for both.
  std::uint64_t wire_bytes() const;
  /// Bytes of parameters, gradients and windows on this rank.
  std::int64_t held_bytes() const;
  /// Bytes of pinned host memory, of what is offloaded of them; not among held_bytes().
  std::int64_t host_bytes() const;

  /// For ShardedOptimizer.
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// A group's parameters, whole, as long as this lives. Moves; the last one lets go.
class Gathered {
 public:
  Gathered(Gathered&& other) noexcept;
  Gathered& operator=(Gathered&&) = delete;
  ~Gathered();

  /// @throws Error (usage) when the parameter is of another group
  View operator[](ParamId id) const;

 private:
  friend class ShardedParams;
  Gathered(ShardedParams::State& params, int group, Stream compute);

  ShardedParams::State* params_;
  int group_;
  Stream compute_;
};

}  // namespace weft::zero
