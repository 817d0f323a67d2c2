#include "weft-scaling/gpt/trainer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/core/error.hpp"

namespace weft::examples {

double learning_rate(std::int64_t step, const RateSchedule& schedule) {
  if (step < schedule.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.steps <= schedule.warmup_steps) return 1;
  const double done = static_cast<double>(step - schedule.warmup_steps) /
                      static_cast<double>(schedule.steps - schedule.warmup_steps);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return schedule.floor + (1 - schedule.floor) * cosine;
}

namespace {

/// The spec for another rule than AdamW, with a usual rate.
OptimizerSpec with_rule(OptimizerSpec spec, const std::string& rule) {
  if (rule == "adamw") return spec;
  if (rule == "sgd") return {.kind = OptimizerKind::sgd, .learning_rate = 0.1, .momentum = 0.9};
  if (rule == "muon") {
    spec.kind = OptimizerKind::muon;
    spec.others_rate = spec.learning_rate;
    spec.learning_rate = 0.02;
    spec.momentum = 0.95;
  } else if (rule == "lamb") {
    spec.kind = OptimizerKind::lamb;
    spec.learning_rate = 0.01;
  } else if (rule == "lars") {
    spec.kind = OptimizerKind::lars;
    spec.learning_rate = 1;
    spec.momentum = 0.9;
    spec.weight_decay = 1e-4;
  } else {
    throw Error(ErrorKind::usage, text("--optimizer ", rule), "allowed are adamw, muon, lamb, lars and sgd");
  }
  return spec;
}

}  // namespace

OptimizerSpec changed(OptimizerSpec spec, const RecipeChanges& changes) {
  if (changes.optimizer) spec = with_rule(spec, *changes.optimizer);
  if (const auto rate = changes.learning_rate) {
    if (!(*rate > 0 && *rate <= 1))
      throw Error(ErrorKind::usage, text("--learning-rate ", *rate, " is not above 0 and at most 1"));
    spec.learning_rate = *rate;
  }
  if (const auto fraction = changes.final_fraction) {
    if (!(*fraction >= 0 && *fraction <= 1))
      throw Error(ErrorKind::usage, text("--final-fraction ", *fraction, " is not a number from 0 to 1"));
    spec.final_fraction = *fraction;
  }
  if (const auto steps = changes.warmup_steps) {
    if (*steps < 0 || *steps > 1'000'000)
      throw Error(ErrorKind::usage, text("--warmup ", *steps, " is not a number from 0 to 1000000"));
    spec.warmup_steps = *steps;
  }
  if (const auto beta = changes.beta1) {
    if (!(*beta >= 0 && *beta < 1))
      throw Error(ErrorKind::usage, text("--beta1 ", *beta, " is not a number from 0 to below 1"));
    spec.beta1 = *beta;
  }
  return spec;
}

}  // namespace weft::examples
