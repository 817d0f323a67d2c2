#pragma once
// Optimizers over flat memory, on the host or a device: one pass, no branches, no knowledge of tensors.
//
// An optimizer owns the state of `count` elements, wherever they lie in the model: hand it the whole flat
// buffer, or only a rank's shard of it. The learning rate may change from step to step; without one, the
// options' holds. A step may be taken in pieces, as the gradients arrive. One optimizer serves one thread at
// a time.
//
//   AdamW<float> adam(math, count, {.learning_rate = 1e-3});
//   adam.step(parameters, gradients, 1e-3 * learning_rate(step, {.warmup_steps = 10, .steps = 400}));
//
//   adam.begin_step(1e-3);                         // the same in pieces
//   for (const Range& range : ranges) adam.update(range.begin, parameters_of(range), gradients_of(range));
//
// WRONG: one optimizer for two shards in turn: they would share their moments.

#include <cstdint>
#include <memory>

#include "math.hpp"

namespace weft::examples {

struct Schedule {
  std::int64_t warmup_steps = 0;  ///< the rate rises linearly over these
  std::int64_t steps = 0;         ///< where the cosine reaches `floor`; 0: no decay
  double floor = 0.1;             ///< share of the peak that stays
};

/// Factor of the peak learning rate in step 0, 1, ...: warm-up, then a cosine down to `floor`.
double learning_rate(std::int64_t step, const Schedule& schedule);

enum class OptimizerKind { sgd, adamw };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double momentum = 0;  ///< Sgd
  double beta1 = 0.9;   ///< AdamW, as all below
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  ///< per step, times the learning rate
  std::int64_t warmup_steps = 0;
  double final_fraction = 0.1;  ///< Schedule::floor
};

template <class Real>
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void begin_step(double learning_rate) = 0;
  /// The elements from `begin` on; every element once per step, in any order.
  /// @throws Error (usage) when the views differ in length, are not of Real on the optimizer's device, or
  /// reach beyond its count
  virtual void update(std::int64_t begin, const View& parameters, const ConstView& gradients) = 0;

  /// All elements. @throws Error (usage) unless both views have the optimizer's count of elements
  void step(const View& parameters, const ConstView& gradients, double learning_rate);
  void step(const View& parameters, const ConstView& gradients) {
    step(parameters, gradients, spec_.learning_rate);
  }
  const OptimizerSpec& spec() const { return spec_; }
  virtual std::int64_t state_bytes() const = 0;

 protected:
  Optimizer(Math<Real>& math, std::int64_t count, const OptimizerSpec& spec)
      : math_(math), count_(count), spec_(spec) {}
  void check(std::int64_t begin, const ConstView& parameters, const ConstView& gradients) const;
  /// The state of the elements from `begin` on.
  static Real* from(Buffer& state, std::int64_t begin) {
    return static_cast<Real*>(state.view().data()) + begin;
  }

  Math<Real>& math_;
  std::int64_t count_;
  OptimizerSpec spec_;
};

/// velocity = momentum * velocity + gradient; parameter -= rate * velocity. Without momentum there is no
/// state.
template <class Real>
class Sgd final : public Optimizer<Real> {
 public:
  Sgd(Math<Real>& math, std::int64_t count, const OptimizerSpec& spec);
  void begin_step(double learning_rate) override;
  void update(std::int64_t begin, const View& parameters, const ConstView& gradients) override;
  std::int64_t state_bytes() const override { return static_cast<std::int64_t>(velocity_.size_bytes()); }

 private:
  Buffer velocity_;
  Real rate_ = 0;
};

/// Adam with decoupled weight decay; moments are corrected for their start at zero.
template <class Real>
class AdamW final : public Optimizer<Real> {
 public:
  AdamW(Math<Real>& math, std::int64_t count, const OptimizerSpec& spec);
  void begin_step(double learning_rate) override;
  void update(std::int64_t begin, const View& parameters, const ConstView& gradients) override;
  std::int64_t state_bytes() const override {
    return static_cast<std::int64_t>(first_.size_bytes() + second_.size_bytes());
  }

 private:
  Buffer first_;
  Buffer second_;
  std::int64_t steps_ = 0;
  AdamStep<Real> step_{};  // the one at hand
};

template <class Real>
std::unique_ptr<Optimizer<Real>> make_optimizer(std::int64_t count, const OptimizerSpec& spec,
                                                Math<Real>& math = host_math<Real>());

}  // namespace weft::examples
