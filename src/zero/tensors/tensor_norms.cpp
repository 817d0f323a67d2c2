#include "zero/tensors/tensor_norms.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/memory/elementwise.hpp"
#include "zero/update/update_kernel.hpp"

namespace weft::detail {
namespace {

constexpr std::int64_t together = 16;

/// Adds value(i)^2 of `count` elements. Halves of 16 are added, as in gradient_norm.cpp; a rest is filled up with 0.
template <class Value>
void add_squares_of(std::int64_t count, const Value& value, ExactSum& sum) {
  std::array<double, together> squares;
  for (std::int64_t at = 0; at < count; at += together) {
    const std::int64_t some = std::min(together, count - at);
    if (some < together) squares.fill(0);
    for (std::int64_t i = 0; i < some; ++i) {
      const double one = value(at + i);
      squares[static_cast<std::size_t>(i)] = one * one;
    }
    for (std::size_t half = together / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) squares[i] += squares[i + half];
    }
    sum.add(squares[0]);
  }
}

/// Calls use(value) with a function that reads element i of floating-point data.
template <class Use>
void with_values(const ConstView& data, const Use& use) {
  dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, double>) {
      use([at = static_cast<const T*>(data.data())](std::int64_t i) { return at[i]; });
    } else if constexpr (!std::is_integral_v<T>) {
      use([at = static_cast<const T*>(data.data())](std::int64_t i) {
        return static_cast<double>(static_cast<float>(at[i]));
      });
    }
  });
}

/// The same of the parameters' exact values.
template <class Use>
void with_masters(const StepSlice& slice, const Use& use) {
  if (slice.kept == Master::none) return with_values(slice.parameters, use);
  if (slice.kept == Master::f32) return with_values(slice.master, use);
  const auto* high = static_cast<const std::uint16_t*>(slice.parameters.data());
  const auto* low = static_cast<const std::int16_t*>(slice.master.data());
  use([high, low](std::int64_t i) { return static_cast<double>(joined({high[i], low[i]})); });
}

}  // namespace

void add_gradient_squares(const StepSlice& slice, TensorSquares& to) {
  const std::int64_t count = slice.gradient.count();
  with_masters(slice, [&](const auto& p) { add_squares_of(count, p, to.parameters); });
  with_values(slice.gradient, [&](const auto& g) { add_squares_of(count, g, to.updates); });
}

void add_direction_squares(const StepSlice& slice, const Direction& direction, TensorSquares& to) {
  const std::int64_t count = slice.gradient.count();
  with_masters(slice, [&](const auto& p) {
    add_squares_of(count, p, to.parameters);
    with_values(slice.first, [&](const auto& m) {
      const auto moves = [&](const auto& v) {
        add_squares_of(
            count,
            [&, direction](std::int64_t i) {
              return direction.rate * m(i) / (std::sqrt(v(i)) + direction.epsilon) + direction.decay * p(i);
            },
            to.updates);
      };
      with_values(slice.second, moves);
    });
  });
}

}  // namespace weft::detail
