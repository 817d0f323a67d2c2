#pragma once
// Dynamic loss scaling: the factor that keeps small gradients of a 16-bit model above the smallest number of
// their type.
//
// A trainer multiplies its loss by `scale()`; the optimizer divides the gradients by it. When a gradient
// overflows, the step is skipped and the scale is halved; after `growth_interval` steps without an overflow
// it doubles (Micikevicius et al. 2018; the rules are DeepSpeed's). LossScaler is a plain value: every rank
// must call update() with the same argument. ShardedOptimizer does so.
//
//   LossScaler scaler({.initial = 65536});
//   double loss_scale = scaler.scale();
//   scaler.update(overflowed);                    // once a step
//
// WRONG: changing the scale between backward and the optimizer's step, which divides by the new scale.

#include <cstdint>

namespace weft::zero {

struct LossScalerOptions {
  double initial = 65536;
  double minimum = 1;
  std::int64_t growth_interval = 1000;  ///< steps without overflow until the scale doubles
  int hysteresis = 2;                   ///< overflows until the scale halves; counted anew after it doubles
};

class LossScaler {
 public:
  /// @throws Error (usage) naming the option that is out of range
  explicit LossScaler(const LossScalerOptions& options = {});

  double scale() const { return scale_; }
  /// @throws Error (usage) when the step overflowed and the scale is at its minimum
  void update(bool overflowed);
  /// How many steps have overflowed so far.
  std::int64_t skipped() const { return skipped_; }

  /// What it goes on from in a later run.
  struct State {
    double scale;
    std::int64_t overflows_left, clean_steps, skipped;
  };
  State state() const { return {scale_, overflows_left_, clean_, skipped_}; }
  /// @throws Error (usage) for a scale below the minimum or not finite, and for negative counts
  void load_state(const State& state);

 private:
  LossScalerOptions options_;
  double scale_;
  std::int64_t overflows_left_;
  std::int64_t clean_ = 0;  // steps since the last overflow or growth
  std::int64_t skipped_ = 0;
};

}  // namespace weft::zero
