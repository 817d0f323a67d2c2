#include "optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/core/error.hpp"

namespace weft::examples {

double learning_rate(std::int64_t step, const Schedule& schedule) {
  if (step < schedule.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.steps <= schedule.warmup_steps) return 1;
  const double done = static_cast<double>(step - schedule.warmup_steps) /
                      static_cast<double>(schedule.steps - schedule.warmup_steps);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return schedule.floor + (1 - schedule.floor) * cosine;
}

template <class Real>
void Optimizer<Real>::check(std::int64_t begin, std::span<const Real> parameters,
                            std::span<const Real> gradients) const {
  const bool within = begin >= 0 && std::ssize(parameters) <= count_ - begin;
  if (within && parameters.size() == gradients.size()) return;
  throw Error(ErrorKind::usage,
              text("an optimizer of ", count_, " elements was given ", parameters.size(), " parameters and ",
                   gradients.size(), " gradients from element ", begin));
}

template <class Real>
void Optimizer<Real>::step(std::span<Real> parameters, std::span<const Real> gradients,
                           double learning_rate) {
  if (std::ssize(parameters) != count_) {
    throw Error(ErrorKind::usage, text("an optimizer of ", count_, " elements was given ", parameters.size(),
                                       " parameters for a whole step"));
  }
  begin_step(learning_rate);
  update(0, parameters, gradients);
}

template <class Real>
Sgd<Real>::Sgd(std::int64_t count, const OptimizerSpec& spec)
    : Optimizer<Real>(count, spec),
      velocity_(Buffer::on_host(data_type_of<Real>, spec.momentum > 0 ? count : 0)) {}

template <class Real>
void Sgd<Real>::begin_step(double learning_rate) {
  rate_ = static_cast<Real>(learning_rate);
}

template <class Real>
void Sgd<Real>::update(std::int64_t begin, std::span<Real> parameters, std::span<const Real> gradients) {
  this->check(begin, parameters, gradients);
  const Real rate = rate_;
  const std::int64_t count = std::ssize(parameters);
  Real* __restrict p = parameters.data();
  const Real* __restrict g = gradients.data();
  if (velocity_.count() == 0) {
    for (std::int64_t i = 0; i < count; ++i) p[i] -= rate * g[i];
    return;
  }
  const auto momentum = static_cast<Real>(this->spec_.momentum);
  Real* __restrict v = velocity_.template as<Real>().data() + begin;
  for (std::int64_t i = 0; i < count; ++i) {
    v[i] = momentum * v[i] + g[i];
    p[i] -= rate * v[i];
  }
}

template <class Real>
AdamW<Real>::AdamW(std::int64_t count, const OptimizerSpec& spec)
    : Optimizer<Real>(count, spec),
      first_(Buffer::on_host(data_type_of<Real>, count)),
      second_(Buffer::on_host(data_type_of<Real>, count)) {}

template <class Real>
void AdamW<Real>::begin_step(double learning_rate) {
  const OptimizerSpec& spec = this->spec_;
  const auto steps = static_cast<double>(++steps_);
  rate_ = static_cast<Real>(learning_rate / (1 - std::pow(spec.beta1, steps)));
  scale_ = static_cast<Real>(1 / std::sqrt(1 - std::pow(spec.beta2, steps)));
  keep_ = static_cast<Real>(1 - learning_rate * spec.weight_decay);
}

template <class Real>
void AdamW<Real>::update(std::int64_t begin, std::span<Real> parameters, std::span<const Real> gradients) {
  this->check(begin, parameters, gradients);
  const OptimizerSpec& spec = this->spec_;
  const auto beta1 = static_cast<Real>(spec.beta1);
  const auto beta2 = static_cast<Real>(spec.beta2);
  const auto fresh1 = static_cast<Real>(1 - spec.beta1);
  const auto fresh2 = static_cast<Real>(1 - spec.beta2);
  const auto epsilon = static_cast<Real>(spec.epsilon);
  const Real rate = rate_;
  const Real scale = scale_;
  const Real keep = keep_;
  const std::int64_t count = std::ssize(parameters);
  Real* __restrict p = parameters.data();
  const Real* __restrict g = gradients.data();
  Real* __restrict m = first_.template as<Real>().data() + begin;
  Real* __restrict v = second_.template as<Real>().data() + begin;
  for (std::int64_t i = 0; i < count; ++i) {
    m[i] = beta1 * m[i] + fresh1 * g[i];
    v[i] = beta2 * v[i] + fresh2 * g[i] * g[i];
    p[i] = keep * p[i] - rate * m[i] / (scale * std::sqrt(v[i]) + epsilon);
  }
}

template <class Real>
std::unique_ptr<Optimizer<Real>> make_optimizer(std::int64_t count, const OptimizerSpec& spec) {
  if (spec.kind == OptimizerKind::sgd) return std::make_unique<Sgd<Real>>(count, spec);
  return std::make_unique<AdamW<Real>>(count, spec);
}

template class Optimizer<float>;
template class Optimizer<double>;
template class Sgd<float>;
template class Sgd<double>;
template class AdamW<float>;
template class AdamW<double>;
template std::unique_ptr<Optimizer<float>> make_optimizer(std::int64_t, const OptimizerSpec&);
template std::unique_ptr<Optimizer<double>> make_optimizer(std::int64_t, const OptimizerSpec&);

}  // namespace weft::examples
