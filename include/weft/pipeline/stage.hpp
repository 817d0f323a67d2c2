#pragma once
// A stage: one piece of a model, and how it computes a microbatch. A trainer implements it for the executor.
//
// The executor (stage_executor.hpp) owns the values that cross boundaries between stages: the activation of a
// microbatch forward, its gradient back. A stage reads and writes them in the views that it is given, and
// keeps whatever else its backward needs. Views are contiguous and on the communicator's device; neighbouring
// stages agree on the shape of the elements.
//
// All calls come from the thread that calls StageExecutor::step, in the order of the schedule. Work goes to
// `compute`: on an inline stream it is done when the call returns, on any other it is queued. Views are valid
// until that work is done, with one exception: `input` and `output_gradient` of a microbatch are the same
// memory in all calls for it.
//
//   class Linear final : public pipeline::Stage {
//     Boundary input() const override { return {DataType::f32, rows * inputs}; }
//     Boundary output() const override { return {DataType::f32, rows * outputs}; }
//     void forward(const MicrobatchValues& of, const Stream&) override {
//       multiply(of.input, weight, of.output);
//     }
//     void backward_input(const MicrobatchValues& of, const Stream&) override {
//       multiply_transposed(of.output_gradient, weight, of.input_gradient);
//     }
//     void backward_weight(const MicrobatchValues& of, const Stream&) override {
//       add_outer(of.output_gradient, of.input, gradient);      // accumulates over microbatches
//     }
//   };
//
// WRONG: keeping of.input beyond the microbatch's last backward: the memory then has another microbatch.

#include <cstdint>

#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"

namespace weft::pipeline {

/// The value that crosses between two stages.
struct Boundary {
  DataType dtype = DataType::f32;
  /// Elements of one microbatch; of the largest if they differ. 0: an end of the model.
  std::int64_t count = 0;

  friend bool operator==(const Boundary&, const Boundary&) = default;
};

/// One microbatch at one stage. Views that a call does not use are empty. So are `input` and `input_gradient`
/// of the model's first stage, and `output` and `output_gradient` of its last.
struct MicrobatchValues {
  int microbatch = 0;
  bool recomputed = false;      ///< forward: keep nothing, recompute() comes before the backward
  ConstView input{};            ///< in every call
  View output{};                ///< forward: write it
  ConstView output_gradient{};  ///< backward: the gradient of the loss by the output
  View input_gradient{};        ///< backward and backward_input: write it
};

class Stage {
 public:
  virtual ~Stage() = default;
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Must be the same in every call.
  virtual Boundary input() const = 0;
  virtual Boundary output() const = 0;
  /// Elements of this microbatch's output, at most output().count. Called right before its forward. If it is
  /// ever less, ExecutorOptions::sizes_travel must be set.
  virtual std::int64_t output_count(int /*microbatch*/, std::int64_t /*input_count*/) const {
    return output().count;
  }

  virtual void forward(const MicrobatchValues& of, const Stream& compute) = 0;
  /// Computes the gradient of the input. The stage keeps what backward_weight will need.
  virtual void backward_input(const MicrobatchValues& of, const Stream& compute) = 0;
  /// Adds to the gradients of the weights.
  virtual void backward_weight(const MicrobatchValues& of, const Stream& compute) = 0;
  /// Does both. A stage that can share work between them overrides it, with the same results.
  virtual void backward(const MicrobatchValues& of, const Stream& compute) {
    backward_input(of, compute);
    backward_weight(of, compute);
  }

  /// Whether any call blocks the host until other ranks make the same call, as a gather of ZeRO-3 does.
  /// Messages between stages then get threads of their own, since those ranks may need one. Must be the same
  /// in every call.
  virtual bool waits_for_others() const { return false; }

  // Entries that a pass has put into the schedule. Those that a stage does not override @throw Error (usage),
  // which names the function.

  /// Computes again what a forward with `recomputed` has not kept.
  virtual void recompute(const MicrobatchValues& of, const Stream& compute);
  /// Start and wait for the copy of a microbatch's activations to the host, and back.
  virtual void offload(int microbatch, const Stream& compute);
  virtual void await_offload(int microbatch, const Stream& compute);
  virtual void load(int microbatch, const Stream& compute);
  virtual void await_load(int microbatch, const Stream& compute);
  /// Sharded parameters (ZeRO-3): start to gather them; make later work of `compute` wait for that; release
  /// them.
  virtual void unshard(const Stream& compute);
  virtual void await_unshard(const Stream& compute);
  virtual void reshard(const Stream& compute);
  /// Start and wait for the sum of gradients over data-parallel ranks, after the last microbatch.
  virtual void reduce_gradients(const Stream& compute);
  virtual void await_reduce_gradients(const Stream& compute);
};

}  // namespace weft::pipeline
