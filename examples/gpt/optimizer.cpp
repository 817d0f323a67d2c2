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
void Optimizer<Real>::check(std::int64_t begin, const ConstView& parameters,
                            const ConstView& gradients) const {
  for (const ConstView& view : {parameters, gradients}) {
    if (view.dtype() == data_type_of<Real> && view.device() == math_.device()) continue;
    throw Error(ErrorKind::usage, text("an optimizer of ", data_type_of<Real>, " on ", math_.device(),
                                       " was given ", view.dtype(), " on ", view.device()));
  }
  const bool within = begin >= 0 && parameters.count() <= count_ - begin;
  if (within && parameters.count() == gradients.count()) return;
  throw Error(ErrorKind::usage,
              text("an optimizer of ", count_, " elements was given ", parameters.count(), " parameters and ",
                   gradients.count(), " gradients from element ", begin));
}

template <class Real>
void Optimizer<Real>::step(const View& parameters, const ConstView& gradients, double learning_rate) {
  if (parameters.count() != count_) {
    throw Error(ErrorKind::usage, text("an optimizer of ", count_, " elements was given ", parameters.count(),
                                       " parameters for a whole step"));
  }
  begin_step(learning_rate);
  update(0, parameters, gradients);
}

template <class Real>
Sgd<Real>::Sgd(Math<Real>& math, std::int64_t count, const OptimizerSpec& spec)
    : Optimizer<Real>(math, count, spec), velocity_(math.allocate(spec.momentum > 0 ? count : 0)) {}

template <class Real>
void Sgd<Real>::begin_step(double learning_rate) {
  rate_ = static_cast<Real>(learning_rate);
}

template <class Real>
void Sgd<Real>::update(std::int64_t begin, const View& parameters, const ConstView& gradients) {
  this->check(begin, parameters, gradients);
  auto* p = static_cast<Real*>(parameters.data());
  const auto* g = static_cast<const Real*>(gradients.data());
  if (velocity_.count() == 0) return this->math_.sgd(rate_, p, g, parameters.count());
  this->math_.sgd(rate_, static_cast<Real>(this->spec_.momentum), p, g, this->from(velocity_, begin),
                  parameters.count());
}

template <class Real>
AdamW<Real>::AdamW(Math<Real>& math, std::int64_t count, const OptimizerSpec& spec)
    : Optimizer<Real>(math, count, spec), first_(math.allocate(count)), second_(math.allocate(count)) {}

template <class Real>
void AdamW<Real>::begin_step(double learning_rate) {
  const OptimizerSpec& spec = this->spec_;
  const auto steps = static_cast<double>(++steps_);
  step_ = {.beta1 = static_cast<Real>(spec.beta1),
           .beta2 = static_cast<Real>(spec.beta2),
           .fresh1 = static_cast<Real>(1 - spec.beta1),
           .fresh2 = static_cast<Real>(1 - spec.beta2),
           .epsilon = static_cast<Real>(spec.epsilon),
           .rate = static_cast<Real>(learning_rate / (1 - std::pow(spec.beta1, steps))),
           .scale = static_cast<Real>(1 / std::sqrt(1 - std::pow(spec.beta2, steps))),
           .keep = static_cast<Real>(1 - learning_rate * spec.weight_decay)};
}

template <class Real>
void AdamW<Real>::update(std::int64_t begin, const View& parameters, const ConstView& gradients) {
  this->check(begin, parameters, gradients);
  this->math_.adamw(step_, static_cast<Real*>(parameters.data()), static_cast<const Real*>(gradients.data()),
                    this->from(first_, begin), this->from(second_, begin), parameters.count());
}

template <class Real>
std::unique_ptr<Optimizer<Real>> make_optimizer(std::int64_t count, const OptimizerSpec& spec,
                                                Math<Real>& math) {
  if (spec.kind == OptimizerKind::sgd) return std::make_unique<Sgd<Real>>(math, count, spec);
  return std::make_unique<AdamW<Real>>(math, count, spec);
}

template class Optimizer<float>;
template class Optimizer<double>;
template class Sgd<float>;
template class Sgd<double>;
template class AdamW<float>;
template class AdamW<double>;
template std::unique_ptr<Optimizer<float>> make_optimizer(std::int64_t, const OptimizerSpec&, Math<float>&);
template std::unique_ptr<Optimizer<double>> make_optimizer(std::int64_t, const OptimizerSpec&, Math<double>&);

}  // namespace weft::examples
