#pragma once
// What a reference workload says of its optimizer, and the learning rate over its steps. The optimizer itself
// is weft's (weft/zero/sharded_optimizer.hpp).

#include <cstdint>

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

}  // namespace weft::examples
