#pragma once
// Training that exchanges only every H steps: each rank trains its own copy of the parameters, and now and then ranks bring
// their copies together (local SGD; DiLoCo: arXiv 2311.08105, algorithm 1).
//
// The trainer keeps its parameters, its optimizer (the inner one) and the state of that optimizer, and calls step() after
// each step of it. Every H-th call takes an outer step. The difference (DiLoCo's outer gradient) is the parameters at the
// last outer step minus the parameters now. A GradientReducer averages it over ranks, with whichever hook, and an outer
// optimizer takes the mean for a gradient. All ranks then go on from the same parameters. A rank sends in H steps
// what it sends in one step of data parallelism.
//
// Streaming (Streaming DiLoCo: arXiv 2501.18512, algorithm 2) spreads that out. Parameters are cut into `fragments`, and each has outer steps
// of its own: every H steps, H / fragments steps after those of the fragment before it, so that a rank never sends more than a fragment at
// once. With a `delay` the mean is taken in that many inner steps after differences were sent, and travels behind these. A rank's own
// parameters have gone on meanwhile; the new ones are mixing * own + (1 - mixing) * outer.
//
// Collective: construction, step(), outer_step(), state() and load_state(). One thread at a time. step() is in the order of `compute`, and
// returns at once but where it takes in a mean: then it blocks the host until all ranks' differences are there. Parameters are the trainer's
// memory, of the host or of the communicator's device; they outlive the LocalSteps, and only `compute` writes them. Where the wire
// is an inline stream, step() is what carries a delayed exchange on.
//
//   LocalSteps local(comm, model.parameters(), {.every = 50});
//   for (const Batch& batch : data) {
//     model.forward_backward(batch, compute);
//     adam.step(model.parameters(), compute);      // the inner step, of this rank alone
//     local.step(compute);
//   }
//   local.outer_step(compute);                     // ranks are alike again, also between two multiples of H
//
//   LocalSteps streaming(comm, model.parameters(), {.every = 32, .fragments = 4, .delay = 2, .mixing = 0.5,
//                                                   .make_hook = [](int) { return hook_named("int4", 0); }});
//
// WRONG: averaging gradients over the same ranks, too (GradientReducer, ShardedOptimizer): ranks then never differ, and each step
// still exchanges. Over the ranks of one island, with LocalSteps over ranks of different islands, it is right.
//
// Which bits are the same:
// - After an outer step without mixing parameters are bitwise the same on all ranks, and the same for any size of buckets; so is a training
//   that was saved and goes on with as many ranks, also between two outer steps, if the trainer saves its optimizer's state. With
//   fragments that is so of each fragment. outer_step() leaves all of them alike.
// - No bit depends on when a delayed mean comes: it is taken in after exactly `delay` inner steps.
// - On one rank, OuterAverage without a delay changes no bit: that is the training without LocalSteps.
// - every = 1, inner SGD and OuterAverage is data parallelism within rounding, and bitwise where no operation
//   rounds. More is impossible to any method that sees parameters alone: the inner step has rounded each rank's
//   update to the grid of its parameters, where data parallelism rounds the mean once. A mean of parameters would round no
//   less. Differences are averaged rather than parameters, because they are mostly exact, and small, as codecs need them.
//   With another inner optimizer (Adam, SGD with momentum under H > 1) it is another method, and no such relation holds.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "weft/checkpoint/piece.hpp"
#include "weft/gradient/comm_hook.hpp"
#include "weft/gradient/initial_values.hpp"
#include "weft/gradient/param_layout.hpp"

namespace weft {

/// Parameters become the mean of the ranks' parameters: rate 1, no momentum.
struct OuterAverage {};
/// SGD with Nesterov momentum, as torch.optim.SGD(nesterov=True) has it: m = momentum * m + d; p = p - learning_rate * (d +
/// momentum * m), where d is the mean difference and m begins at 0. The defaults are DiLoCo's.
struct OuterNesterov {
  double learning_rate = 0.7;  ///< above 0
  double momentum = 0.9;       ///< in [0, 1)
};
using OuterOptimizer = std::variant<OuterNesterov, OuterAverage>;

/// What an outer step does where a difference, or the mean of all of them, has NaN or infinite values.
enum class BadDifference {
  /// Throws Error (usage), on every rank, that names rank and parameter; nothing has changed, and the next step() sends again.
  refuse,
  /// The same as a warning of rank 0. All ranks go back to the parameters of the last outer step, of the fragment if there are several,
  /// momentum stays as it was, and what the inner steps since then did is lost. The inner optimizer's own state is the trainer's: it may hold NaN, too.
  skip_step,
};

/// The same on every rank.
struct LocalStepsOptions {
  std::int64_t every = 0;  ///< H: inner steps for each outer one, at least 1
  /// P: sent at different steps. At most one for each parameter, and `every` is a multiple of it.
  int fragments = 1;
  /// tau: inner steps between sending differences and taking in their mean, from 0 to every - 1.
  std::int64_t delay = 0;
  /// alpha: the share of this rank's own parameters where a mean is taken in, from 0 (none) to below 1. With a delay, 0 loses the inner steps that
  /// it lasted; the paper has 0.5.
  double mixing = 0;
  /// By parameter, its fragment, from 0 on. Empty: fragments of about equally many bytes, in the layout's order. {0, 1, 2, 0, 1, 2} for a
  /// parameter in each of six layers is the paper's strided pattern.
  std::vector<int> fragment_of{};
  OuterOptimizer outer{};
  /// How differences are averaged, as in ReducerOptions. A hook that begins with uncompressed steps counts outer steps: say
  /// hook_named("int8", 0).
  std::shared_ptr<CommHook> hook{};
  /// The same for several fragments: makes the hook of each, since a hook keeps the state of one exchange.
  std::function<std::shared_ptr<CommHook>(int fragment)> make_hook{};
  BadDifference bad = BadDifference::refuse;
  InitialValues initial = InitialValues::compare;
  std::optional<Stream> wire{};  ///< as in ReducerOptions
};

/// What step() did.
enum class OuterStep {
  none,     ///< this was an inner step; differences may have been sent
  taken,    ///< parameters have changed: without fragments and mixing they are now the same on all ranks
  skipped,  ///< BadDifference::skip_step; parameters, or those of a fragment, are the same on all ranks, too
};

/// What this rank has done so far, since construction.
struct LocalStepsAccount {
  std::int64_t inner_steps = 0;
  std::int64_t outer_steps = 0;  ///< that were taken, of each fragment
  std::int64_t skipped = 0;      ///< that were not
  std::uint64_t bytes_sent = 0;  ///< to other ranks in outer steps, by Communicator::wire_bytes()
  std::uint64_t bytes_last = 0;  ///< of these, in the last one
  std::int64_t stale_steps = 0;  ///< between sending and taking in (the staleness), of all outer steps
  std::int64_t stale_last = 0;   ///< of these, in the last one
  double exposed_seconds = 0;  ///< `compute` waited for differences of other ranks, as GradientReducer has it
  double outer_step_seconds = 0;  ///< outer steps took on the host, all in all, exposed_seconds included
};

class LocalSteps {
 public:
  /// Collective. @param parameters where the layout's parameters lie, in its order: f32 or f64
  /// @throws Error (usage) for options out of range, and parameters of another type, count or device than layout and communicator
  /// have; (mismatch) naming two ranks whose options, parameters or initial values differ
  LocalSteps(Communicator comm, const ParamLayout& layout, std::vector<View> parameters,
             LocalStepsOptions options);
  /// From any range of objects with a `name`, a `count`, a pointer `data` to f32 or f64 in host memory, and optionally a `shape`, as
  /// ParamLayout::of() takes them.
  template <class Range>
  LocalSteps(Communicator comm, const Range& parameters, LocalStepsOptions options)
      : LocalSteps(std::move(comm), ParamLayout::of(parameters, type_of(parameters)), views_of(parameters),
                   std::move(options)) {}
  ~LocalSteps();
  LocalSteps(LocalSteps&&) noexcept;

  /// After an inner step, once `compute` has its parameters. Every H-th call is an outer_step(); with fragments, sends and takes in those that
  /// are due.
  OuterStep step(const Stream& compute);
  /// Takes an outer step now, before a test of the model or at the end: all ranks call it after as many steps. Does nothing (none)
  /// where all ranks have the same parameters. With fragments: takes in those that are under way, then exchanges each whose parameters
  /// differ, without delay and mixing, and the order of fragments begins anew. @throws Error (usage) as BadDifference says, (timeout) naming a rank that does not come
  OuterStep outer_step(const Stream& compute);

  /// Inner steps since the last outer one, of the fragment whose parameters have differed for longest; 0: all ranks have the same parameters.
  std::int64_t inner_steps() const;
  /// The fragment of a parameter. @throws Error (usage) for a number that is no parameter's
  int fragment_of(ParamId id) const;
  const ParamLayout& layout() const;
  LocalStepsAccount account() const;
  /// Bytes beside the trainer's parameters: those of the last outer step, momentum, differences, and with mixing a parameter's scratch.
  std::int64_t held_bytes() const;

  /// What a later run goes on from. Pieces, as copies: this rank's share of the parameters of the last outer step ("NAME/outer") and of
  /// momentum ("NAME/outer_momentum"), between two outer steps each rank's own parameters ("NAME/rank R"), and what hooks keep. Fragments under
  /// way are waited for, and their means saved ("NAME/outer_mean"). All ranks call it; blocks until `compute` has passed the last step.
  checkpoint::State state(const Stream& compute);
  /// Collective. Goes on from what state() gave, and writes the trainer's parameters. Between two outer steps of another number of ranks, all
  /// begin at the parameters of the last outer step: the inner steps since then are lost, which is logged; a mean under way is taken in all the
  /// same. H, rates, delay and mixing may differ; with another H, the order of several fragments begins anew.
  /// @throws Error (usage) for values of no LocalSteps, with another outer optimizer, or other fragments; (mismatch) where ranks load different
  /// ones
  template <class Checkpoint>
  void load_state(const Checkpoint& from, const Stream& compute) {
    load_state(
        from.values(), [&from](std::span<const checkpoint::Wanted> wanted) { from.read(wanted); }, compute);
  }
  void load_state(const checkpoint::Values& values, const checkpoint::Reader& read, const Stream& compute);

 private:
  template <class Range>
  static DataType type_of(const Range& parameters) {
    using Element = std::remove_pointer_t<std::remove_cvref_t<decltype(std::begin(parameters)->data)>>;
    return data_type_of<Element>;
  }
  template <class Range>
  static std::vector<View> views_of(const Range& parameters) {
    std::vector<View> views;
    for (const auto& one : parameters)
      views.emplace_back(std::span(one.data, static_cast<std::size_t>(one.count)));
    return views;
  }

  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
