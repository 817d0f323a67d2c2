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
// Collective: construction, outer steps and load_state(). One thread at a time. step() is in the order of `compute`, and returns at once
// but for outer steps: these block the host until all ranks have the mean. Parameters are the trainer's memory, of the host
// or of the communicator's device; they outlive the LocalSteps, and only `compute` writes them.
//
//   LocalSteps local(comm, model.parameters(), {.every = 50});
//   for (const Batch& batch : data) {
//     model.forward_backward(batch, compute);
//     adam.step(model.parameters(), compute);      // the inner step, of this rank alone
//     local.step(compute);
//   }
//   local.outer_step(compute);                     // ranks are alike again, also between two multiples of H
//
// WRONG: averaging gradients over the same ranks, too (GradientReducer, ShardedOptimizer): ranks then never differ, and each step
// still exchanges. Over the ranks of one island, with LocalSteps over ranks of different islands, it is right.
//
// Which bits are the same:
// - After an outer step parameters are bitwise the same on all ranks, and the same for any size of buckets; so is a training that
//   was saved and goes on with as many ranks, also between two outer steps, if the trainer saves its optimizer's state.
// - On one rank, OuterAverage changes no bit: that is the training without LocalSteps.
// - every = 1, inner SGD and OuterAverage is data parallelism within rounding, and bitwise where no operation
//   rounds. More is impossible to any method that sees parameters alone: the inner step has rounded each rank's
//   update to the grid of its parameters, where data parallelism rounds the mean once. A mean of parameters would round no
//   less. Differences are averaged rather than parameters, because they are mostly exact, and small, as codecs need them.
//   With another inner optimizer (Adam, SGD with momentum under H > 1) it is another method, and no such relation holds.

#include <cstdint>
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
  refuse,  ///< throws Error (usage), on every rank, that names rank and parameter; nothing has changed
  /// The same as a warning of rank 0. All ranks go back to the parameters of the last outer step, momentum stays as it was, and what the inner
  /// steps since then did is lost. The inner optimizer's own state is the trainer's: it may hold NaN, too.
  skip_step,
};

/// The same on every rank.
struct LocalStepsOptions {
  std::int64_t every = 0;  ///< H: inner steps for each outer one, at least 1
  OuterOptimizer outer{};
  /// How differences are averaged, as in ReducerOptions. A hook that begins with uncompressed steps counts outer steps: say
  /// hook_named("int8", 0).
  std::shared_ptr<CommHook> hook{};
  BadDifference bad = BadDifference::refuse;
  InitialValues initial = InitialValues::compare;
  std::optional<Stream> wire{};  ///< as in ReducerOptions
};

/// What step() did.
enum class OuterStep {
  none,     ///< this was an inner step
  taken,    ///< parameters are now the same on all ranks
  skipped,  ///< BadDifference::skip_step; parameters are the same on all ranks, too
};

/// What this rank has done so far, since construction.
struct LocalStepsAccount {
  std::int64_t inner_steps = 0;
  std::int64_t outer_steps = 0;  ///< that were taken
  std::int64_t skipped = 0;      ///< that were not
  std::uint64_t bytes_sent = 0;  ///< to other ranks in outer steps, by Communicator::wire_bytes()
  std::uint64_t bytes_last = 0;  ///< of these, in the last one
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

  /// After an inner step, once `compute` has its parameters. Every H-th call is an outer_step().
  OuterStep step(const Stream& compute);
  /// Takes an outer step now, before a test of the model or at the end: all ranks call it after as many steps. Does nothing (none)
  /// where no inner step was since the last one. @throws Error (usage) as BadDifference says, (timeout) naming a rank that does not come
  OuterStep outer_step(const Stream& compute);

  /// Inner steps since the last outer one; 0: all ranks have the same parameters.
  std::int64_t inner_steps() const;
  const ParamLayout& layout() const;
  LocalStepsAccount account() const;
  /// Bytes beside the trainer's parameters: those of the last outer step, momentum, and differences.
  std::int64_t held_bytes() const;

  /// What a later run goes on from. Pieces, as copies: this rank's share of the parameters of the last outer step ("NAME/outer") and of
  /// momentum ("NAME/outer_momentum"), between two outer steps each rank's own parameters ("NAME/rank R"), and what the hook keeps.
  /// All ranks call it; blocks until `compute` has passed the last step.
  checkpoint::State state(const Stream& compute);
  /// Collective. Goes on from what state() gave, and writes the trainer's parameters. Between two outer steps of another number of ranks, all
  /// begin at the parameters of the last outer step: the inner steps since then are lost, which is logged. H and rates may differ.
  /// @throws Error (usage) for values of no LocalSteps, or with another outer optimizer; (mismatch) where ranks load different ones
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
