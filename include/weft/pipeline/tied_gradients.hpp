#pragma once
// Weights that several stages of a pipeline have, such as GPT's input embedding, which is its output head,
// too: each stage has a copy, and the copies stay equal because their gradients are summed over the stages
// before anything else is done with them.
//
// A stage begins a sum when its own gradient is complete, and later awaits it; it is taken meanwhile, on a
// stream of its own. Every tied parameter has a communicator of the devices that have copies, so that devices
// may begin and await in any order. Copies on one device are added there, in the order of stages; devices are
// summed in the order of their first stage with a copy. All copies get the same bits, whatever the schedule.
//
// One thread uses it. The communicator is one pipeline's, rank d being device d; construction is collective.
//
//   pipeline::TiedGradients tied(comm, schedule.device_of, {{"embedding", DataType::f32, count, {0, last}}});
//   void reduce_gradients(const Stream& compute) override {
//     tied.begin(0, stage, params.gradient(embedding, compute), compute);
//   }
//   void await_reduce_gradients(const Stream& compute) override {
//     tied.await(0, stage, compute);
//     params.mark_ready(embedding, compute);                    // and now over data-parallel ranks
//   }
//
// Copies stay equal where what follows is alike: loaded with the same values, the same options of reducer and
// optimizer, data-parallel ranks that share nodes in the same way. A norm over all stages takes the one that
// `counts`:
//
//   if (!tied.counts(0, stage)) options.counted_elsewhere.push_back(embedding);       // zero, whole_model
//
// await() does not block the host, on an inline stream neither: what comes after it is then posted. On CUDA
// devices all begin in one order, as communicators ask for.
//
// WRONG: compute.synchronize() after await() while this thread still has messages to carry on that lead to
// the other copy's gradient: they stand still meanwhile. Do that at the end of the row.

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
  std::vector<int> stages;  ///< that have a copy, rising; two at least
};

class TiedGradients {
 public:
  /// Collective. @param device_of of each stage (Schedule::device_of)
  /// @throws Error (usage): a parameter of no elements, or of stages that are not there, not rising or fewer
  /// than two, a device that is no rank; (mismatch) where ranks differ, naming two and what they have
  TiedGradients(Communicator comm, std::vector<int> device_of, std::vector<TiedParameter> tied);
  /// Finishes what has begun.
  ~TiedGradients();
  TiedGradients(TiedGradients&&) noexcept;

  /// The gradient of this stage's copy is complete when `compute` gets here, and is replaced by the sum of
  /// all copies. It stays where it is, untouched, until `compute` is past await(). Copies on one device begin
  /// one by one, each with memory of its own.
  /// @param parameter its place in `tied`
  /// @throws Error (usage): a stage without a copy or of another device, a gradient of another shape, twice
  /// before await(), memory of another copy
  void begin(int parameter, int stage, View gradient, const Stream& compute);
  /// Later work of `compute` finds the sum there. @throws Error (usage) before begin(), of this stage and of
  /// the device's other copies
  void await(int parameter, int stage, const Stream& compute);
  /// Carries on what has begun, where that needs this thread.
  void poll();

  /// Of all copies one is for all: of the first stage.
  bool counts(int parameter, int stage) const;
  /// Payload bytes sent to other devices so far.
  std::uint64_t wire_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::pipeline
