#pragma once
// The optimizer settings of a reference workload, and the learning rate over its steps. The optimizer itself
// is part of weft (weft/zero/sharded_optimizer.hpp).

#include <cstdint>
#include <optional>
#include <string>

namespace weft::examples {

struct RateSchedule {
  std::int64_t warmup_steps = 0;  ///< the rate rises linearly over these
  std::int64_t steps = 0;         ///< where the cosine reaches `floor`; 0: no decay
  double floor = 0.1;             ///< share of the peak that stays
};

/// Factor of the peak learning rate in step 0, 1, ...: warm-up, then a cosine down to `floor`.
double learning_rate(std::int64_t step, const RateSchedule& schedule);

enum class OptimizerKind { sgd, adamw, lamb, lars, muon };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double momentum = 0;     ///< Sgd, Lars and Muon
  double others_rate = 0;  ///< Muon: peak of the parameters that AdamW updates
  double beta1 = 0.9;      ///< AdamW and Lamb, as the next two
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  ///< per step, times the learning rate
  std::int64_t warmup_steps = 0;
  double final_fraction = 0.1;  ///< RateSchedule::floor
};

/// Settings that a command line changes: --optimizer, --learning-rate, --final-fraction, --warmup, --beta1.
struct RecipeChanges {
  /// adamw (the model's own), muon, lamb, lars or sgd. muon has the model's AdamW for what is no hidden matrix.
  std::optional<std::string> optimizer{};
  std::optional<double> learning_rate{};   ///< above 0, at most 1
  std::optional<double> final_fraction{};  ///< 0 to 1
  std::optional<std::int64_t> warmup_steps{};
  std::optional<double> beta1{};  ///< 0 to below 1
};

/// @throws Error (usage) naming the option and what is allowed
OptimizerSpec changed(OptimizerSpec spec, const RecipeChanges& changes);

}  // namespace weft::examples
