#pragma once
// What a trainer tells the executor of a pipeline: one piece of a model, a stage, and how it computes a
// microbatch.
//
// The executor (stage_executor.hpp) owns what crosses the boundaries between stages: a microbatch's
// activation one way, the gradient of it the other. A stage reads and writes them where it is told, and keeps
// for itself what its own backward needs beside its input. Both lie on the communicator's device, one after
// the other without gaps; what shape their elements have is between neighbouring stages.
//
// All calls come from the thread that calls StageExecutor::step, in the order of the schedule. Work goes to
// `compute`: on an inline stream it is done when the call returns, on any other it is handed over and the
// call returns. Views are valid until that work is done and no longer, with one exception: `input` and
// `output_gradient` of a microbatch are the same memory in all calls for it.
//
//   class Linear final : public pipeline::Stage {
//     Boundary input() const override { return {DataType::f32, rows * inputs}; }
//     Boundary output() const override { return {DataType::f32, rows * outputs}; }
//     void forward(const MicrobatchValues& of, const Stream&) override { multiply(of.input, weight,
//     of.output); } void backward_input(const MicrobatchValues& of, const Stream&) override {
//       multiply_transposed(of.output_gradient, weight, of.input_gradient);
//     }
//     void backward_weight(const MicrobatchValues& of, const Stream&) override {
//       add_outer(of.output_gradient, of.input, gradient);         // adds: microbatches come one after the
//       other
//     }
//   };
//
// WRONG: keeping of.input beyond the microbatch's last backward: another one is there then.

#include <cstdint>

#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"

namespace weft::pipeline {

/// What crosses between two stages.
struct Boundary {
  DataType dtype = DataType::f32;
  /// Elements of one microbatch; of the largest where they differ. 0: an end of the model.
  std::int64_t count = 0;

  friend bool operator==(const Boundary&, const Boundary&) = default;
};

/// One microbatch at one stage. What a call has no use for is empty; so are `input` of the model's first
/// stage and all gradients of its output.
struct MicrobatchValues {
  int microbatch = 0;
  bool recomputed = false;      ///< forward: need keep nothing, recompute() comes before the backward
  ConstView input{};            ///< in every call
  View output{};                ///< forward: to be written
  ConstView output_gradient{};  ///< backward: of the loss, by the output
  View input_gradient{};        ///< backward and backward_input: to be written
};

class Stage {
 public:
  virtual ~Stage() = default;
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// The same whenever asked.
  virtual Boundary input() const = 0;
  virtual Boundary output() const = 0;
  /// Elements of this microbatch's output, at most output().count; asked right before its forward. Needs
  /// ExecutorOptions::sizes_travel where it is ever another number.
  virtual std::int64_t output_count(int /*microbatch*/, std::int64_t /*input_count*/) const {
    return output().count;
  }

  virtual void forward(const MicrobatchValues& of, const Stream& compute) = 0;
  /// The gradient of the input. Whatever backward_weight will need is kept by the stage.
  virtual void backward_input(const MicrobatchValues& of, const Stream& compute) = 0;
  /// Adds to the gradients of the weights.
  virtual void backward_weight(const MicrobatchValues& of, const Stream& compute) = 0;
  /// Both; a stage that can share work between them overrides it, with the same results.
  virtual void backward(const MicrobatchValues& of, const Stream& compute) {
    backward_input(of, compute);
    backward_weight(of, compute);
  }

  /// Whether any call blocks the host until other ranks come, as a gather of ZeRO-3 does: messages between
  /// stages are then carried by threads of their own, for who is waited for may need one. The same whenever
  /// asked.
  virtual bool waits_for_others() const { return false; }

  // What a schedule asks for beside computation, where a pass has put it there. What a stage does not
  // override it cannot do: @throws Error (usage), which names it.

  /// Makes again what a forward that was `recomputed` has not kept.
  virtual void recompute(const MicrobatchValues& of, const Stream& compute);
  /// Activations of a microbatch to the host and back: begun, and waited for.
  virtual void offload(int microbatch, const Stream& compute);
  virtual void await_offload(int microbatch, const Stream& compute);
  virtual void load(int microbatch, const Stream& compute);
  virtual void await_load(int microbatch, const Stream& compute);
  /// Parameters that are shared out (ZeRO-3): begins to gather them; later work of `compute` finds them
  /// whole; lets them go.
  virtual void unshard(const Stream& compute);
  virtual void await_unshard(const Stream& compute);
  virtual void reshard(const Stream& compute);
  /// The sum over data-parallel ranks, after the last microbatch: begun, and waited for.
  virtual void reduce_gradients(const Stream& compute);
  virtual void await_reduce_gradients(const Stream& compute);
};

}  // namespace weft::pipeline
