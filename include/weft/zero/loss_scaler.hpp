#pragma once
// The factor that keeps small gradients of a 16-bit model above the smallest number of their type.
//
// A trainer multiplies its loss by `scale()`; the optimizer divides by it again. Where that overflows, the
// step is skipped and the scale halved; after `growth_interval` steps without, it doubles (Micikevicius et
// al. 2018; the rules are DeepSpeed's). A plain value: what it is told must be the same on every rank, as
// ShardedOptimizer sees to.
//
//   LossScaler scaler({.initial = 65536});
//   double loss_scale = scaler.scale();
//   scaler.update(overflowed);                    // once a step
//
// WRONG: changing the scale between backward and the optimizer's step: it divides by the new one.

#include <cstdint>

namespace weft::zero {

struct LossScalerOptions {
  double initial = 65536;
  double minimum = 1;
  std::int64_t growth_interval = 1000;  ///< steps without overflow until it doubles
  int hysteresis = 2;                   ///< overflows in a row until it halves
};

class LossScaler {
 public:
  /// @throws Error (usage) naming the option that cannot be
  explicit LossScaler(const LossScalerOptions& options = {});

  double scale() const { return scale_; }
  /// @throws Error (usage) when the step overflowed and the scale is at its minimum
  void update(bool overflowed);
  /// Steps that overflowed so far.
  std::int64_t skipped() const { return skipped_; }

 private:
  LossScalerOptions options_;
  double scale_;
  int overflows_left_;
  std::int64_t clean_ = 0;  // steps since the last overflow or growth
  std::int64_t skipped_ = 0;
};

}  // namespace weft::zero
