#pragma once
// Words and numbers in lines of logs. Views point into what was given.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "common/findings/words.hpp"
#include "core/base/number.hpp"

namespace weft::report::bandwidth {

inline std::string_view first_word(std::string_view words) {
  words = trimmed(words);
  return words.substr(0, words.find_first_of(" \t"));
}

/// The number that the words begin with.
template <class T>
std::optional<T> leading_number(std::string_view words) {
  T value{};
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
  if (error != std::errc() || end == words.data()) return std::nullopt;
  return value;
}

using detail::number_of;

}  // namespace weft::report::bandwidth
