#pragma once
// The constants of an optimizer's step, computed once for all elements.
//
// Adam with bias correction is  p - a (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).  This equals
// p - A m / (sqrt(v) + E) with A = a sqrt(1 - b2^t) / (1 - b1^t) and E = eps sqrt(1 - b2^t): two constants
// replace two divisions for each element. The results differ by the rounding of the constants, which are f64.
//
// LAMB is AdamW, and LARS is SGD with the rate within the velocity, at a rate that is the tensor's own: the
// learning rate times its trust ratio.

#include <cstdint>

#include "weft/zero/optimizer.hpp"

namespace weft::detail {

enum class UpdateRule : std::uint8_t {
  adamw,  ///< two moments; weight decay shrinks the parameter
  adam,   ///< two moments; weight decay is added to the gradient
  sgd,    ///< one moment, or none without momentum; weight decay is added to the gradient
  none,   ///< nothing changes: the turn of a tensor comes in another pass (zero/tensors)
};

struct StepFactors {
  UpdateRule rule = UpdateRule::adamw;
  double gradient_scale = 1;  ///< factor of the gradient: 1 / loss scale x clipping
  double pull = 0;            ///< pull x parameter is added to the gradient: weight decay of adam and sgd
  double keep = 1;            ///< factor of the parameter before the update: 1 - rate x decay of adamw
  double rate = 0;            ///< factor of the update, with Adam's bias corrections
  double beta1 = 0;           ///< factor of the old first moment; the momentum of sgd
  double fresh1 = 1;          ///< factor of the gradient in the first moment
  double beta2 = 0;           ///< factor of the old second moment
  double fresh2 = 1;          ///< factor of the squared gradient in the second moment
  double epsilon = 1;         ///< with Adam's bias correction

  /// How many f32 moments a step keeps for each parameter, besides a master copy.
  int moments() const {
    if (rule == UpdateRule::none) return 0;
    if (rule != UpdateRule::sgd) return 2;
    return beta1 == 0 ? 0 : 1;
  }
};

/// The step of two moments in two passes: one that changes the moments alone, and one that leaves them.
StepFactors moments_alone(StepFactors factors);
StepFactors but_moments(StepFactors factors);

/// Whether the rule looks at tensors as a whole (zero/tensors).
constexpr bool needs_whole_tensors(const zero::Optimizer& optimizer) {
  return std::holds_alternative<zero::Lamb>(optimizer) || std::holds_alternative<zero::Lars>(optimizer) ||
         std::holds_alternative<zero::Muon>(optimizer);
}

/// The step that takes Muon's orthogonalized update for the gradient.
StepFactors matrix_factors(const zero::Muon& rule, double learning_rate, std::int64_t rows,
                           std::int64_t columns);

/// @throws Error (usage) naming the field, its value and what is allowed
void check(const zero::Optimizer& optimizer);

/// @param step the number of this update, from 1
/// @param learning_rate the rate of this step by the schedule; the optimizer's own rate is ignored
/// @param gradient_scale 1 / loss scale x the factor of clipping
/// @returns for Muon those of AdamW: its matrices have matrix_factors()
/// @throws Error (usage) naming what is wrong, as check() does
StepFactors factors(const zero::Optimizer& optimizer, std::int64_t step, double learning_rate,
                    double gradient_scale);

}  // namespace weft::detail
