#pragma once
// Arrays of an optimizer's step, and the reference step with the formulas of a textbook.

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "weft/core/dtype.hpp"
#include "zero/update/fused_step.hpp"
#include "zero/update/update_kernel.hpp"

namespace weft::test {

using detail::Form;

constexpr Form all_forms[] = {Form::f32, Form::bf16, Form::f16, Form::split};
constexpr DataType gradient_types[] = {DataType::f32, DataType::bf16, DataType::f16};

inline std::vector<zero::Optimizer> all_rules() {
  return {zero::AdamW{.weight_decay = 0.1}, zero::Adam{.weight_decay = 0.1},
          zero::Sgd{.momentum = 0.9, .weight_decay = 0.1}, zero::Sgd{.weight_decay = 0.1}};
}

/// Numbers as in training, some of any size, and numbers at the limits of the formats.
inline float some_number(std::mt19937& random) {
  constexpr float ends[] = {0.0F,      -0.0F,     1.0F,       0x1p-149F,       0x1.fffffcp-127F,
                            0x1p-126F, -0x1p-75F, 0x1p-63F,   0x1.fffffep127F, -0x1.fffffep127F,
                            INFINITY,  -INFINITY, NAN,        65504.0F,        65520.0F,
                            0x1p-24F,  0x1p-25F,  -0x1.8p-15F};
  if (random() % 8 == 0) return ends[random() % std::size(ends)];
  const float value = std::normal_distribution<float>()(random);
  return random() % 4 == 0 ? std::ldexp(value, static_cast<int>(random() % 300) - 160) : value;
}

/// Values of a step, in memory that begins `skipped` elements behind the allocation's begin.
class SomeStep {
 public:
  SomeStep(Form form, DataType gradient_type, std::int64_t count, std::int64_t skipped = 0)
      : form_(form),
        gradient_type_(gradient_type),
        count_(count),
        skipped_(static_cast<std::size_t>(skipped)) {
    const auto size = static_cast<std::size_t>(count) + skipped_;
    for (auto* words : {&gradient, &parameters, &master}) words->assign(size * 4, std::byte{0});
    for (auto* floats : {&first, &second}) floats->assign(size, 0);
  }

  void draw(unsigned seed) {
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < count_; ++i) {
      const float drawn = some_number(random);
      set(i, some_number(random), drawn, some_number(random), std::abs(some_number(random)));
    }
  }
  void set(std::int64_t i, float g, float p, float m, float v) {
    dispatch(gradient_type_, [&]<class T>(std::type_identity<T>) {
      if constexpr (!std::is_integral_v<T>) put(gradient, i, static_cast<T>(g));
    });
    if (form_ == Form::split) {
      put(parameters, i, detail::split(p).high);
      put(master, i, detail::split(p).low);
    } else {
      if (form_ == Form::f32) put(parameters, i, p);
      if (form_ == Form::bf16) put(parameters, i, BFloat16(p));
      if (form_ == Form::f16) put(parameters, i, Half(p));
      if (form_ != Form::f32) put(master, i, p);
    }
    first[static_cast<std::size_t>(i) + skipped_] = m;
    second[static_cast<std::size_t>(i) + skipped_] = v;
  }

  detail::StepArrays arrays(std::int64_t begin = 0, std::int64_t end = -1) {
    const auto from = static_cast<std::size_t>(begin) + skipped_;
    const std::size_t p_bytes = form_ == Form::f32 ? 4 : 2;
    return {.gradient = gradient.data() + from * size_of(gradient_type_),
            .parameters = parameters.data() + from * p_bytes,
            .master = form_ == Form::f32 ? nullptr : master.data() + from * (form_ == Form::split ? 2 : 4),
            .first = first.data() + from,
            .second = second.data() + from,
            .count = (end < 0 ? count_ : end) - begin,
            .gradient_type = gradient_type_,
            .form = form_};
  }
  detail::StepSlice slice(const detail::StepFactors& factors) {
    const detail::StepArrays all = arrays();
    const bool split = form_ == Form::split;
    detail::StepSlice result;
    result.gradient = ConstView(all.gradient, count_, gradient_type_);
    result.parameters = View(all.parameters, count_, parameter_type());
    result.kept = form_ == Form::f32 ? detail::Master::none
                  : split            ? detail::Master::split
                                     : detail::Master::f32;
    if (form_ != Form::f32) result.master = View(all.master, count_, split ? DataType::bf16 : DataType::f32);
    if (factors.moments() > 0) result.first = View(all.first, count_, DataType::f32);
    if (factors.moments() > 1) result.second = View(all.second, count_, DataType::f32);
    return result;
  }
  DataType parameter_type() const {
    return form_ == Form::f32 ? DataType::f32 : form_ == Form::f16 ? DataType::f16 : DataType::bf16;
  }

  float gradient_at(std::int64_t i) const {
    return dispatch(gradient_type_,
                    [&]<class T>(std::type_identity<T>) { return static_cast<float>(get<T>(gradient, i)); });
  }
  /// The master.
  float parameter_at(std::int64_t i) const {
    if (form_ == Form::f32) return get<float>(parameters, i);
    if (form_ == Form::split)
      return detail::joined({get<std::uint16_t>(parameters, i), get<std::int16_t>(master, i)});
    return get<float>(master, i);
  }
  float first_at(std::int64_t i) const { return first[static_cast<std::size_t>(i) + skipped_]; }
  float second_at(std::int64_t i) const { return second[static_cast<std::size_t>(i) + skipped_]; }
  std::uint16_t bits_16_at(std::int64_t i) const { return get<std::uint16_t>(parameters, i); }

  /// The first element with other bits than `other`'s; all NaN are equal. -1: none.
  std::int64_t differs_at(const SomeStep& other) const {
    for (std::int64_t i = 0; i < count_; ++i) {
      const bool same =
          alike(parameter_at(i), other.parameter_at(i)) && alike(first_at(i), other.first_at(i)) &&
          alike(second_at(i), other.second_at(i)) &&
          (form_ == Form::f32 || std::isnan(parameter_at(i)) || bits_16_at(i) == other.bits_16_at(i));
      if (!same) return i;
    }
    return -1;
  }

  std::vector<std::byte> gradient, parameters, master;
  std::vector<float> first, second;

 private:
  static bool alike(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) ||
           std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  }
  template <class T>
  void put(std::vector<std::byte>& to, std::int64_t i, T value) {
    std::memcpy(to.data() + (static_cast<std::size_t>(i) + skipped_) * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  T get(const std::vector<std::byte>& from, std::int64_t i) const {
    T value;
    std::memcpy(&value, from.data() + (static_cast<std::size_t>(i) + skipped_) * sizeof(T), sizeof(T));
    return value;
  }

  Form form_;
  DataType gradient_type_;
  std::int64_t count_;
  std::size_t skipped_;
};

struct Textbook {
  double parameter, first, second;
};

/// One step of one element in f64, with the bias corrections where the paper has them.
inline Textbook textbook(const zero::Optimizer& optimizer, std::int64_t step, double rate, double scale,
                         double g, double p, double m, double v) {
  g *= scale;
  const auto adaptive = [&](const auto& rule) {
    m = rule.beta1 * m + (1 - rule.beta1) * g;
    v = rule.beta2 * v + (1 - rule.beta2) * g * g;
    const auto t = static_cast<double>(step);
    return rate * (m / (1 - std::pow(rule.beta1, t))) /
           (std::sqrt(v / (1 - std::pow(rule.beta2, t))) + rule.epsilon);
  };
  if (const auto* adamw = std::get_if<zero::AdamW>(&optimizer)) {
    const double update = adaptive(*adamw);
    return {p - rate * adamw->weight_decay * p - update, m, v};
  }
  if (const auto* adam = std::get_if<zero::Adam>(&optimizer)) {
    g += adam->weight_decay * p;
    const double update = adaptive(*adam);
    return {p - update, m, v};
  }
  const auto& sgd = std::get<zero::Sgd>(optimizer);
  const double velocity = sgd.momentum * m + g + sgd.weight_decay * p;
  return {p - rate * velocity, sgd.momentum == 0 ? m : velocity, v};
}

/// The distance between f32 numbers near `value`.
inline double last_place(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 24, -149));
}

}  // namespace weft::test
