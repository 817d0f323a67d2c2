#include "zero/plan/step_factors.hpp"

#include <algorithm>
#include <cmath>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

/// NaN fails every range test.
void need(bool holds, const char* field, double value, const char* allowed) {
  if (!holds) throw Error(ErrorKind::usage, text(field, " is ", value), text("allowed is ", allowed));
}

void need_rate(const char* field, double value) {
  need(value >= 0 && std::isfinite(value), field, value, "a finite number of 0 or more");
}

void need_fraction(const char* field, double value) {
  need(value >= 0 && value < 1, field, value, "0 or more, and less than 1");
}

template <class Adaptive>
void check_adaptive(const Adaptive& rule) {
  need_rate("learning_rate", rule.learning_rate);
  need_fraction("beta1", rule.beta1);
  need_fraction("beta2", rule.beta2);
  // Epsilon alone is the divisor of a parameter that has had no gradient.
  need(rule.epsilon >= 1e-18 && rule.epsilon <= 1, "epsilon", rule.epsilon, "1e-18 to 1");
  need_rate("weight_decay", rule.weight_decay);
}

void check_one(const zero::AdamW& rule) {
  check_adaptive(rule);
}
void check_one(const zero::Adam& rule) {
  check_adaptive(rule);
}
void check_one(const zero::Sgd& rule) {
  need_rate("learning_rate", rule.learning_rate);
  need_fraction("momentum", rule.momentum);
  need_rate("weight_decay", rule.weight_decay);
}

void check_one(const zero::Lamb& rule) {
  check_adaptive(rule);
}
void check_one(const zero::Lars& rule) {
  need_rate("learning_rate", rule.learning_rate);
  need_fraction("momentum", rule.momentum);
  need_rate("weight_decay", rule.weight_decay);
  need(rule.trust_coefficient > 0 && std::isfinite(rule.trust_coefficient), "trust_coefficient",
       rule.trust_coefficient, "a finite number above 0");
}

void check_one(const zero::Muon& rule) {
  need(rule.learning_rate > 0 && std::isfinite(rule.learning_rate), "Muon's learning_rate",
       rule.learning_rate,
       "a finite number above 0: the rate of the other parameters is in proportion to it");
  need_fraction("momentum", rule.momentum);
  need_rate("weight_decay", rule.weight_decay);
  need(rule.ns_steps >= 1 && rule.ns_steps <= 20, "ns_steps", rule.ns_steps, "1 to 20");
  check_adaptive(rule.others);
}

template <class Adaptive>
StepFactors adaptive(const Adaptive& rule, std::int64_t step, double learning_rate) {
  const auto t = static_cast<double>(step);
  const double root = std::sqrt(1 - std::pow(rule.beta2, t));
  StepFactors result;
  result.rate = learning_rate * root / (1 - std::pow(rule.beta1, t));
  result.epsilon = rule.epsilon * root;
  result.beta1 = rule.beta1;
  result.fresh1 = 1 - rule.beta1;
  result.beta2 = rule.beta2;
  result.fresh2 = 1 - rule.beta2;
  return result;
}

template <class Decoupled>  // AdamW and Lamb
StepFactors factors_of(const Decoupled& rule, std::int64_t step, double learning_rate) {
  StepFactors result = adaptive(rule, step, learning_rate);
  result.rule = UpdateRule::adamw;
  result.keep = 1 - learning_rate * rule.weight_decay;
  return result;
}

StepFactors factors_of(const zero::Adam& rule, std::int64_t step, double learning_rate) {
  StepFactors result = adaptive(rule, step, learning_rate);
  result.rule = UpdateRule::adam;
  result.pull = rule.weight_decay;
  return result;
}

StepFactors factors_of(const zero::Sgd& rule, std::int64_t, double learning_rate) {
  StepFactors result;
  result.rule = UpdateRule::sgd;
  result.rate = learning_rate;
  result.beta1 = rule.momentum;
  result.pull = rule.weight_decay;
  return result;
}

// velocity = momentum velocity + rate gradient + rate decay p
StepFactors factors_of(const zero::Lars& rule, std::int64_t, double learning_rate) {
  StepFactors result;
  result.rule = UpdateRule::sgd;
  result.gradient_scale = learning_rate;
  result.rate = 1;
  result.beta1 = rule.momentum;
  result.pull = learning_rate * rule.weight_decay;
  return result;
}

StepFactors factors_of(const zero::Muon& rule, std::int64_t step, double learning_rate) {
  return factors_of(rule.others, step, learning_rate * (rule.others.learning_rate / rule.learning_rate));
}

}  // namespace

StepFactors matrix_factors(const zero::Muon& rule, double learning_rate, std::int64_t rows,
                           std::int64_t columns) {
  const auto m = static_cast<double>(rows);
  const auto n = static_cast<double>(columns);
  StepFactors result;
  result.rule = UpdateRule::sgd;
  result.rate = learning_rate;
  result.pull = rule.weight_decay;
  result.gradient_scale = rule.adjust_lr == zero::MuonRate::original ? std::sqrt(std::max(1.0, m / n))
                                                                     : 0.2 * std::sqrt(std::max(m, n));
  return result;
}

void check(const zero::Optimizer& optimizer) {
  std::visit([](const auto& rule) { check_one(rule); }, optimizer);
}

StepFactors factors(const zero::Optimizer& optimizer, std::int64_t step, double learning_rate,
                    double gradient_scale) {
  check(optimizer);
  need(step >= 1, "step", static_cast<double>(step), "1 or more: steps count from 1");
  need_rate("the step's learning rate", learning_rate);
  need_rate("gradient_scale", gradient_scale);
  StepFactors result =
      std::visit([&](const auto& rule) { return factors_of(rule, step, learning_rate); }, optimizer);
  result.gradient_scale *= gradient_scale;
  return result;
}

StepFactors moments_alone(StepFactors factors) {
  factors.rate = 0;
  factors.keep = 1;
  return factors;
}

StepFactors but_moments(StepFactors factors) {
  factors.beta1 = factors.beta2 = 1;
  factors.fresh1 = factors.fresh2 = 0;
  return factors;
}

}  // namespace weft::detail
