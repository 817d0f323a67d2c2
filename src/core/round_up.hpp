#pragma once
// Integers divided and rounded upwards: how many units cover a count, and what those cover. Both are 0 or
// more, and the unit 1 or more.

#include <concepts>
#include <type_traits>

namespace weft::detail {

template <std::integral Count>
constexpr Count ceil_div(Count count, std::type_identity_t<Count> unit) {
  return (count + unit - 1) / unit;
}

template <std::integral Count>
constexpr Count round_up(Count count, std::type_identity_t<Count> unit) {
  return ceil_div(count, unit) * unit;
}

}  // namespace weft::detail
