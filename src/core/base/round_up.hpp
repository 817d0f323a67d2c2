#pragma once
// Division that rounds up. The count is 0 or more, and the unit 1 or more.

#include <concepts>
#include <type_traits>

namespace weft::detail {

/// How many units cover `count`.
template <std::integral Count>
constexpr Count ceil_div(Count count, std::type_identity_t<Count> unit) {
  return (count + unit - 1) / unit;
}

/// The smallest multiple of `unit` that is not below `count`.
template <std::integral Count>
constexpr Count round_up(Count count, std::type_identity_t<Count> unit) {
  return ceil_div(count, unit) * unit;
}

}  // namespace weft::detail
