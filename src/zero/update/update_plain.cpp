// The plain loop of an optimizer's step: element by element, the rule of update_rule-inl.hpp in f64. It reads
// gradient, master and moments, and writes moments, master and parameter: one read and one write of each.

#include <cmath>

#include "zero/update/update_kernel.hpp"

#define WEFT_LANES plain_lanes
#define WEFT_LANES_ATTR
#include "zero/update/update_rule-inl.hpp"

namespace weft::detail {
namespace {

/// std::fma is a library call where the compiler may not assume the instruction: the result is right
/// everywhere, but a build without Highway is slow.
struct OneLane {
  using Wide = double;
  using Narrow = float;
  using Constant = double;
  using NarrowConstant = float;

  static double all(double value) { return value; }
  static float narrow_all(double value) { return static_cast<float>(value); }
  static double wide(float value) { return static_cast<double>(value); }
  static float narrow(double value) { return static_cast<float>(value); }
  static double product(double a, double b) { return a * b; }
  static double plus_product(double sum, double a, double b) { return std::fma(a, b, sum); }
  static double minus_product(double sum, double a, double b) { return std::fma(-a, b, sum); }
  static float sum(float a, float b) { return a + b; }
  static float quotient(float a, float b) { return a / b; }
  static float root(float value) { return std::sqrt(value); }
};

/// Parameters with their masters, one type for each Form.
template <class Narrow>
struct Stored {
  Narrow* parameters;
  float* masters;

  float master(std::int64_t i) const { return masters[i]; }
  void set(std::int64_t i, float value) const {
    masters[i] = value;
    parameters[i] = static_cast<Narrow>(value);
  }
};
template <>
struct Stored<float> {
  float* parameters;
  void* masters;

  float master(std::int64_t i) const { return parameters[i]; }
  void set(std::int64_t i, float value) const { parameters[i] = value; }
};
struct Halved {
  std::uint16_t* high;
  std::int16_t* low;

  float master(std::int64_t i) const { return joined({high[i], low[i]}); }
  void set(std::int64_t i, float value) const {
    const SplitFloat halves = split(value);
    high[i] = halves.high;
    low[i] = halves.low;
  }
};

template <class Gradient, class Parameters, class Rule>
void loop(const StepArrays& arrays, Parameters parameters, const Rule& rule) {
  const auto* gradient = static_cast<const Gradient*>(arrays.gradient);
  for (std::int64_t i = 0; i < arrays.count; ++i) {
    float first = 0;
    float second = 0;
    if constexpr (Rule::moments > 0) first = arrays.first[i];
    if constexpr (Rule::moments > 1) second = arrays.second[i];
    const float value =
        rule(OneLane::wide(static_cast<float>(gradient[i])), OneLane::wide(parameters.master(i)),
             OneLane::wide(first), OneLane::wide(second), first, second);
    if constexpr (Rule::moments > 0) arrays.first[i] = first;
    if constexpr (Rule::moments > 1) arrays.second[i] = second;
    parameters.set(i, value);
  }
}

template <class Parameters, class Rule>
void update_by(const StepArrays& arrays, const Parameters& parameters, const Rule& rule) {
  if (arrays.gradient_type == DataType::f32) return loop<float>(arrays, parameters, rule);
  if (arrays.gradient_type == DataType::bf16) return loop<BFloat16>(arrays, parameters, rule);
  loop<Half>(arrays, parameters, rule);
}

template <class Parameters>
void update_as(const StepArrays& arrays, const StepFactors& factors, const Parameters& parameters) {
  using namespace plain_lanes;
  if (factors.rule == UpdateRule::adamw)
    return update_by(arrays, parameters, AdaptiveRule<OneLane, false>(factors));
  if (factors.rule == UpdateRule::adam)
    return update_by(arrays, parameters, AdaptiveRule<OneLane, true>(factors));
  if (factors.moments() == 1) return update_by(arrays, parameters, DescentRule<OneLane, true>(factors));
  update_by(arrays, parameters, DescentRule<OneLane, false>(factors));
}

}  // namespace

void plain::update(const StepArrays& arrays, const StepFactors& factors) {
  const auto as = [&]<class Narrow>(std::type_identity<Narrow>) {
    return Stored<Narrow>{static_cast<Narrow*>(arrays.parameters), static_cast<float*>(arrays.master)};
  };
  switch (arrays.form) {
    case Form::f32:
      return update_as(arrays, factors, as(std::type_identity<float>()));
    case Form::bf16:
      return update_as(arrays, factors, as(std::type_identity<BFloat16>()));
    case Form::f16:
      return update_as(arrays, factors, as(std::type_identity<Half>()));
    case Form::split:
      return update_as(
          arrays, factors,
          Halved{static_cast<std::uint16_t*>(arrays.parameters), static_cast<std::int16_t*>(arrays.master)});
  }
}

#if !WEFT_HAS_HIGHWAY
void update(const StepArrays& arrays, const StepFactors& factors) {
  plain::update(arrays, factors);
}
#endif

}  // namespace weft::detail
