// The vectorized loop of an optimizer's step. Highway compiles this file once for every instruction set and
// picks one at run time.
//
// One iteration takes elements_a_step elements: it loads gradient, master and moments, applies the rule of
// update_rule-inl.hpp to four f64 vectors side by side, stores the results, and prefetches the lines of a
// later iteration. The remaining elements of a slice are copied into arrays padded with zeros for one more
// iteration; the bits stay the same because elements do not depend on each other.

#include <algorithm>

#include "core/base/simd_targets.hpp"
#include "zero/update/update_kernel.hpp"

// Vectors are members of classes here, which vectors of unknown length cannot be.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_RVV | WEFT_SIMD_LEFT_OUT)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/update/update_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
#if HWY_NATIVE_FMA && HWY_TARGET != HWY_SCALAR

#undef WEFT_LANES
#undef WEFT_LANES_ATTR
#define WEFT_LANES HWY_NAMESPACE
#define WEFT_LANES_ATTR HWY_ATTR HWY_INLINE
#include "zero/update/update_lanes-inl.hpp"
#include "zero/update/update_rule-inl.hpp"

namespace weft::detail::HWY_NAMESPACE {
namespace {

// Loads of gradients, one type for each data type.
template <class Format>
struct Narrow16 {
  using Stored = std::uint16_t;
  static HWY_ATTR HWY_INLINE Lanes::Wide load(const std::uint16_t* from) {
    return widened([from](std::int64_t i) HWY_ATTR { return Format::widen(words(from + i)); });
  }
};
struct Whole {
  using Stored = float;
  static HWY_ATTR HWY_INLINE Lanes::Wide load(const float* from) { return loaded(from); }
};

// Parameters with their masters, one type for each Form.
struct AsF32 {
  using Stored = float;
  using Master = float;
  static constexpr bool has_master = false;
  static HWY_ATTR HWY_INLINE Lanes::Wide load(const float* parameters, const float*) {
    return loaded(parameters);
  }
  static HWY_ATTR HWY_INLINE void set(hn::Vec<Full> low, hn::Vec<Full> high, float* parameters, float*) {
    hn::StoreU(low, Full(), parameters);
    hn::StoreU(high, Full(), parameters + lanes);
  }
};
template <class Format>
struct As16 {
  using Stored = std::uint16_t;
  using Master = float;
  static constexpr bool has_master = true;
  static HWY_ATTR HWY_INLINE Lanes::Wide load(const std::uint16_t*, const float* master) {
    return loaded(master);
  }
  static HWY_ATTR HWY_INLINE void set(hn::Vec<Full> low, hn::Vec<Full> high, std::uint16_t* parameters,
                                      float* master) {
    AsF32::set(low, high, master, nullptr);
    Format::store(low, high, parameters);
  }
};
struct AsSplit {
  using Stored = std::uint16_t;
  using Master = std::uint16_t;
  static constexpr bool has_master = true;
  static HWY_ATTR HWY_INLINE Lanes::Wide load(const std::uint16_t* parameters, const std::uint16_t* master) {
    return widened([=](std::int64_t i) HWY_ATTR {
      const hn::RebindToSigned<Short> i16;
      const auto low = hn::PromoteTo(SignedWord(), hn::BitCast(i16, hn::LoadU(Short(), master + i)));
      const auto high = hn::ShiftLeft<16>(words(parameters + i));
      return hn::BitCast(Full(), hn::Add(high, hn::BitCast(Word(), low)));
    });
  }
  static HWY_ATTR HWY_INLINE void set(hn::Vec<Full> low, hn::Vec<Full> high, std::uint16_t* parameters,
                                      std::uint16_t* master) {
    const auto low_word = word_of(low);
    const auto high_word = word_of(high);
    const auto half = hn::Set(Word(), 0x8000U);
    store_upper_halves(hn::Add(low_word, half), hn::Add(high_word, half), parameters);
    store_lower_halves(low_word, high_word, master);
  }

 private:
  static HWY_ATTR HWY_INLINE hn::Vec<Word> word_of(hn::Vec<Full> value) {
    return hn::IfThenElse(is_nan(value), hn::Set(Word(), 0x7fc00000U), hn::BitCast(Word(), value));
  }
};

// How far ahead to prefetch: about as many elements as a core updates while memory responds. Measured; the
// speed hardly depends on it around this value.
constexpr std::int64_t elements_ahead = 512;

template <int for_writing, class T>
HWY_INLINE void fetch_lines(const T* from) {
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  for (std::int64_t i = 0; i < elements_a_step; i += line) __builtin_prefetch(from + i, for_writing);
}

template <class Gradient, class Parameters, class Rule>
struct Loop {
  const typename Gradient::Stored* gradient;
  typename Parameters::Stored* parameters;
  typename Parameters::Master* master;
  float* first;
  float* second;

  HWY_ATTR HWY_INLINE void step(const Rule& rule, std::int64_t i) const {
    const Lanes::Wide g = Gradient::load(gradient + i);
    const Lanes::Wide p = Parameters::load(parameters + i, Parameters::has_master ? master + i : nullptr);
    Lanes::Wide m = p;  // rules without moments do not read them
    Lanes::Wide v = p;
    if constexpr (Rule::moments > 0) m = loaded(first + i);
    if constexpr (Rule::moments > 1) v = loaded(second + i);
    Lanes::Narrow new_m, new_v;
    const Lanes::Narrow value = rule(g, p, m, v, new_m, new_v);
    for (int k = 0; k < chains; ++k) {
      if constexpr (Rule::moments > 0) hn::StoreU(new_m.at[k], HalfTag(), first + i + k * half_lanes);
      if constexpr (Rule::moments > 1) hn::StoreU(new_v.at[k], HalfTag(), second + i + k * half_lanes);
    }
    Parameters::set(hn::Combine(Full(), value.at[1], value.at[0]),
                    hn::Combine(Full(), value.at[3], value.at[2]), parameters + i,
                    Parameters::has_master ? master + i : nullptr);
  }

  /// Prefetches for a later iteration: the hardware prefetcher stops at the end of a page.
  HWY_INLINE void fetch(std::int64_t i) const {
    fetch_lines<0>(gradient + i);
    fetch_lines<1>(parameters + i);
    if constexpr (Parameters::has_master) fetch_lines<1>(master + i);
    if constexpr (Rule::moments > 0) fetch_lines<1>(first + i);
    if constexpr (Rule::moments > 1) fetch_lines<1>(second + i);
  }

  HWY_ATTR HWY_NOINLINE void all(const StepFactors& factors, std::int64_t count) const {
    const Rule rule(factors);
    const Loop loop = *this;
    std::int64_t i = 0;
    for (; i + elements_a_step <= count; i += elements_a_step) {
      loop.fetch(i + elements_ahead);
      loop.step(rule, i);
    }
    if (i < count) rest(factors, i, count - i);
  }

  void rest(const StepFactors& factors, std::int64_t i, std::int64_t count) const {
    typename Gradient::Stored some_gradient[elements_a_step] = {};
    typename Parameters::Stored some_parameters[elements_a_step] = {};
    typename Parameters::Master some_master[elements_a_step] = {};
    float some_first[elements_a_step] = {};
    float some_second[elements_a_step] = {};
    std::copy_n(gradient + i, count, some_gradient);
    std::copy_n(parameters + i, count, some_parameters);
    if constexpr (Parameters::has_master) std::copy_n(master + i, count, some_master);
    if constexpr (Rule::moments > 0) std::copy_n(first + i, count, some_first);
    if constexpr (Rule::moments > 1) std::copy_n(second + i, count, some_second);
    Loop{some_gradient, some_parameters, some_master, some_first, some_second}.all(factors, elements_a_step);
    std::copy_n(some_parameters, count, parameters + i);
    if constexpr (Parameters::has_master) std::copy_n(some_master, count, master + i);
    if constexpr (Rule::moments > 0) std::copy_n(some_first, count, first + i);
    if constexpr (Rule::moments > 1) std::copy_n(some_second, count, second + i);
  }
};

template <class Gradient, class Parameters, class Rule>
void update_by(const StepArrays& arrays, const StepFactors& factors) {
  const Loop<Gradient, Parameters, Rule> loop{static_cast<const typename Gradient::Stored*>(arrays.gradient),
                                              static_cast<typename Parameters::Stored*>(arrays.parameters),
                                              static_cast<typename Parameters::Master*>(arrays.master),
                                              arrays.first, arrays.second};
  loop.all(factors, arrays.count);
}

template <class Gradient, class Parameters>
void update_as(const StepArrays& arrays, const StepFactors& factors) {
  if (factors.rule == UpdateRule::adamw)
    return update_by<Gradient, Parameters, AdaptiveRule<Lanes, false>>(arrays, factors);
  if (factors.rule == UpdateRule::adam)
    return update_by<Gradient, Parameters, AdaptiveRule<Lanes, true>>(arrays, factors);
  if (factors.moments() == 1)
    return update_by<Gradient, Parameters, DescentRule<Lanes, true>>(arrays, factors);
  update_by<Gradient, Parameters, DescentRule<Lanes, false>>(arrays, factors);
}

template <class Parameters>
void update_of(const StepArrays& arrays, const StepFactors& factors) {
  if (arrays.gradient_type == DataType::f32) return update_as<Whole, Parameters>(arrays, factors);
  if (arrays.gradient_type == DataType::bf16) return update_as<Narrow16<Bf16>, Parameters>(arrays, factors);
  update_as<Narrow16<F16>, Parameters>(arrays, factors);
}

void update(const StepArrays& arrays, const StepFactors& factors) {
  switch (arrays.form) {
    case Form::f32:
      return update_of<AsF32>(arrays, factors);
    case Form::bf16:
      return update_of<As16<Bf16>>(arrays, factors);
    case Form::f16:
      return update_of<As16<F16>>(arrays, factors);
    case Form::split:
      return update_of<AsSplit>(arrays, factors);
  }
}

}  // namespace
}  // namespace weft::detail::HWY_NAMESPACE

#else
namespace weft::detail::HWY_NAMESPACE {
namespace {
void update(const StepArrays& arrays, const StepFactors& factors) {
  plain::update(arrays, factors);
}
}  // namespace
}  // namespace weft::detail::HWY_NAMESPACE
#endif
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::detail {

HWY_EXPORT(update);

void update(const StepArrays& arrays, const StepFactors& factors) {
  HWY_DYNAMIC_DISPATCH(update)(arrays, factors);
}

}  // namespace weft::detail
#endif
