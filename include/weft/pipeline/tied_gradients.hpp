#pragma once
// Tied weights in a pipeline: a weight that several stages use, such as GPT's input embedding, which is also
// its output head. Each stage has a copy, and the copies stay equal because their gradients are summed over
// the stages before anything else is done with them. It is for trainers that cut such a model into stages; a
// model whose stages share no weight does not need it.
//
// A stage begins a sum when its own gradient is complete, and later awaits it; the sum runs meanwhile, on a
// stream of its own. Every tied parameter has a communicator of the devices with copies, so devices may begin
// and await in any order. Copies on one device are added there, in the order of stages; devices are summed in
// the order of their first stage with a copy. All copies get the same bits, whatever the schedule.
//
// One thread at a time uses it, which is an Error otherwise. The communicator is that of one pipeline, rank d being device d; construction is
// collective.
//
//   pipeline::TiedGradients tied(comm, schedule.device_of, {{"embedding", DataType::f32, count, {0, last}}});
//   void reduce_gradients(const Stream& compute) override {
//     tied.begin(0, stage, params.gradient(embedding, compute), compute);
//   }
//   void await_reduce_gradients(const Stream& compute) override {
//     tied.await(0, stage, compute);
//     params.mark_ready(embedding, compute);                    // then over data-parallel ranks
//   }
//
// Copies stay equal if they start with the same values, reducer and optimizer have the same options, and
// data-parallel ranks share nodes in the same way. A norm over all stages must count a tied weight once, in
// the stage that counts():
//
//   if (!tied.counts(0, stage)) options.counted_elsewhere.push_back(embedding);       // zero, whole_model
//
// await() never blocks the host; on an inline stream, too, work after it is queued. On CUDA devices all ranks
// must begin in one order, as communicators require.
//
// WRONG: compute.synchronize() after await() while this thread has pipeline messages to drive that another
// copy's gradient depends on: they do not move meanwhile. Synchronize at the end of the row.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/collectives/communicator.hpp"

namespace weft::pipeline {

struct TiedParameter {
  std::string name;
  DataType dtype = DataType::f32;
  std::int64_t count = 0;   ///< elements
  std::vector<int> stages;  ///< those with a copy, ascending; at least two
};

class TiedGradients {
 public:
  /// Collective. @param device_of of each stage (Schedule::device_of)
  /// @throws Error (usage): a parameter without elements, stages that do not exist, do not ascend or are
  /// fewer than two, a device that is no rank; (mismatch) if ranks differ, naming two and what they have
  TiedGradients(Communicator comm, std::vector<int> device_of, std::vector<TiedParameter> tied);
  /// Finishes the sums that have begun.
  ~TiedGradients();
  TiedGradients(TiedGradients&&) noexcept;

  /// Starts the sum once `compute` gets here, where the gradient of this stage's copy is complete. The
  /// gradient is replaced by the sum of all copies; it must stay in place and unused until `compute` is past
  /// await(). Copies on one device begin one by one, each with memory of its own.
  /// @param parameter its place in `tied`
  /// @throws Error (usage): a stage without a copy or of another device, a gradient of another shape, a
  /// second call before await(), memory of another copy
  void begin(int parameter, int stage, View gradient, const Stream& compute);
  /// Makes later work of `compute` wait for the sum. @throws Error (usage) unless this stage and the device's
  /// other copies have begun
  void await(int parameter, int stage, const Stream& compute);
  /// Drives the sums that have begun, if that needs this thread.
  void poll();

  /// Whether this stage's copy stands for all of them: it is that of the first stage.
  bool counts(int parameter, int stage) const;
  /// Payload bytes sent to other devices so far.
  std::uint64_t wire_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::pipeline
