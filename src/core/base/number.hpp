#pragma once
// A word as a number: all of it, or none.
//
//   if (const auto rank = number_of<int>(word); rank && *rank >= 0) ...
//
// WRONG: number_of<int>(" 5"), ("+5"), ("5 "), ("0x5"), (""): these are none. Who skips white space or a sign does so before.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace weft::detail {

/// None also where it does not fit. Floating-point numbers may be "inf" and "nan". @param format as std::from_chars has it: a base of whole
/// numbers, a form of others
template <class Number, class... Format>
std::optional<Number> number_of(std::string_view word, Format... format) {
  Number value{};
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, value, format...);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

}  // namespace weft::detail
