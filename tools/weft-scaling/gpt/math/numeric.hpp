#pragma once
// Exponential and reductions in a form that a compiler vectorizes without -ffast-math.
//
// A loop over std::exp calls the library once per element, and a plain sum over floats may not be reordered,
// so both run one element at a time. `exponential(float)` has no branch and no call; `lane_sum` and
// `lane_max` keep sixteen partial results in a fixed order, which is as deterministic as the plain loop and
// fills the vector registers.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace weft::examples {

namespace detail {

/// yes or no, as bits: a plain conditional lets g++ pull the code that follows into both of its arms.
inline float choose(bool condition, float yes, float no) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(yes) & mask) |
                              (std::bit_cast<std::uint32_t>(no) & ~mask));
}

}  // namespace detail

/// e^x with a relative error below 1e-6. Arguments are clamped to [-87, 88], where the result is a normal
/// float.
inline float exponential(float x) {
  x = detail::choose(x < -87.0F, -87.0F, x);
  x = detail::choose(x > 88.0F, 88.0F, x);
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits of the sum.
  constexpr float shift = 12582912.0F;
  const float shifted = x * 1.44269504F + shift;
  const float power = shifted - shift;
  // ln 2 in two parts: the first has few enough bits that its product with `power` is exact.
  const float rest = (x - power * 0.693359375F) + power * 2.12194440e-4F;
  float series = 1.0F / 720;
  series = series * rest + 1.0F / 120;
  series = series * rest + 1.0F / 24;
  series = series * rest + 1.0F / 6;
  series = series * rest + 1.0F / 2;
  series = series * rest + 1.0F;
  series = series * rest + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23;
  return series * std::bit_cast<float>(exponent);
}

inline double exponential(double x) {
  return std::exp(x);
}

namespace detail {

inline constexpr int lanes = 16;

template <class Real, class Element, class Join>
inline Real reduce_lanes(std::int64_t count, Real start, Element element, Join join) {
  std::array<Real, lanes> part;
  part.fill(start);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) part[lane] = join(part[lane], element(i + lane));
  }
  for (int lane = 0; i < count; ++i, ++lane) part[lane] = join(part[lane], element(i));
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) part[lane] = join(part[lane], part[lane + half]);
  }
  return part[0];
}

}  // namespace detail

/// element(0) + ... + element(count - 1)
template <class Real, class Element>
inline Real lane_sum(std::int64_t count, Element element) {
  return detail::reduce_lanes<Real>(count, Real{0}, element, [](Real a, Real b) { return a + b; });
}

/// The largest of element(0) ... element(count - 1); count >= 1.
template <class Real, class Element>
inline Real lane_max(std::int64_t count, Element element) {
  return detail::reduce_lanes<Real>(count, element(0), element, [](Real a, Real b) { return a > b ? a : b; });
}

}  // namespace weft::examples
