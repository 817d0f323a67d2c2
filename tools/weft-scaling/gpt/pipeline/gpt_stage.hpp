#pragma once
// A stage of a GPT: consecutive units, computed microbatch by microbatch in the order of any schedule.
//
// It makes the same calls of the same layers as Gpt, so the values of a microbatch do not depend on where the
// model is cut. A slot keeps what the backward of a microbatch needs, from its forward (or recomputation) to
// its last backward; there are as many slots as the schedule holds microbatches at once. Loss and gradients
// are means over all microbatches of the step. The weight gradients of a microbatch are computed as they
// would be alone and then added to sums, in the order of the calls: schedules with the same order of
// microbatches give the same bits.
//
//   GptStage<float> stage(layers, table, sizes, {.begin = 0, .end = 6, .microbatches = 8, .held = 4});
//   stage.begin_step(batch);                              // all sequences of the step
//   ... forward() and backward() of each microbatch, as pipeline::StageExecutor does
//   optimizer reads stage.gradient(p) of its parameters
//
// WRONG: more microbatches between forward and backward than `held`: an Error.

#include <cstdint>
#include <span>
#include <vector>

#include "weft-scaling/gpt/data/text.hpp"
#include "weft-scaling/gpt/model/gpt_layers.hpp"
#include "weft/pipeline/stage.hpp"

namespace weft::examples {

struct GptStageOptions {
  int begin = 0, end = 0;  ///< units, the last excluded
  int microbatches = 1;    ///< per step
  int sequences = 1;       ///< per microbatch
  int held = 1;            ///< microbatches between forward (or recomputation) and last backward, at most
  bool splits = true;      ///< backward_input and backward_weight are called far apart
  bool recomputes = false;
};

template <class Real>
class GptStage : public pipeline::Stage {
 public:
  /// @param layers, table, sizes of the whole model; outlive it
  GptStage(const GptLayers<Real>& layers, const ParameterTable<Real>& table, const GptSizes& sizes,
           const GptStageOptions& options);

  /// @param batch microbatch after microbatch
  void begin_step(Batch batch);
  /// The mean over the microbatches of the step; 0 in a stage without the head.
  double loss() const;
  /// The parameters of a stage are consecutive.
  int first_parameter() const;
  int end_parameter() const;
  /// The gradient, summed over the microbatches so far.
  View gradient(int parameter);
  /// Bytes of the slot of a microbatch, and of all memory.
  std::int64_t slot_bytes() const { return slot_bytes_; }
  std::int64_t held_bytes() const { return workspace_.bytes(); }

  pipeline::Boundary input() const override { return boundary(has_embedding()); }
  pipeline::Boundary output() const override { return boundary(has_head()); }
  void forward(const pipeline::MicrobatchValues& of, const Stream& compute) override;
  void backward_input(const pipeline::MicrobatchValues& of, const Stream& compute) override;
  void backward_weight(const pipeline::MicrobatchValues& of, const Stream& compute) override;
  void backward(const pipeline::MicrobatchValues& of, const Stream& compute) override;
  void recompute(const pipeline::MicrobatchValues& of, const Stream& compute) override;

 private:
  // By unit; an attention does not use those of an MLP.
  struct Saved {
    typename AttentionBranch<Real>::Saved attention{};
    typename MlpBranch<Real>::Saved mlp{};
  };
  struct Flow {
    typename AttentionBranch<Real>::Flow attention{};
    typename MlpBranch<Real>::Flow mlp{};
  };
  /// Gradients between units.
  struct Flows {
    std::vector<Flow> units;
    Real* features = nullptr;
    Real* stream = nullptr;  ///< that leaves the final norm
  };
  /// The memory of one microbatch.
  struct Slot {
    std::vector<Saved> units;
    typename LayerNorm<Real>::Saved norm;
    Real* features = nullptr;  ///< [rows, width] after the final norm
    Real* logits = nullptr;    ///< [rows, vocabulary]; their gradient after forward
    Flows flows;
  };
  /// Adds a microbatch's gradients to the sums.
  class Sums;

  bool has_embedding() const { return options_.begin == 0; }
  bool has_head() const { return options_.end == sizes_.units(); }
  int rows() const { return options_.sequences * sizes_.context; }
  pipeline::Boundary boundary(bool is_end_of_model) const;
  GptUnit kind(int unit) const { return unit_kind(sizes_, unit); }
  Slot make_slot();
  Flows make_flows(const Flows* shared);
  Slot& take_slot(int microbatch);
  Slot& slot_of(int microbatch);
  Slot& spare_slot();
  void release_slot(int microbatch);
  const std::uint8_t* bytes_of(const Buffer& bytes, int microbatch) const;
  void run_forward(const pipeline::MicrobatchValues& of, Slot& slot, const Stream& compute);
  void run_backward(Pass pass, const pipeline::MicrobatchValues& of);

  const GptLayers<Real>& layers_;
  const ParameterTable<Real>& table_;
  GptSizes sizes_;
  GptStageOptions options_;
  Workspace<Real> workspace_;
  std::vector<std::int64_t> offsets_;  // of its parameters, in sums_
  Buffer sums_;
  Real* scratch_;           // a parameter's gradient of one microbatch
  Real* stream_ = nullptr;  // [rows, width], where a forward has no output
  Flows flows_;             // for backwards that are not split, and the shared part of split ones
  std::vector<Slot> slots_;
  std::int64_t slot_bytes_ = 0;
  std::vector<int> free_;
  std::vector<int> slot_of_;  // by microbatch, -1
  Buffer tokens_, targets_;   // of the step
  std::vector<std::uint8_t> bytes_;
  std::vector<double> losses_;
  int summed_ = 0;  // microbatches in the sums
};

}  // namespace weft::examples
