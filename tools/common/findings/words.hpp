#pragma once
// Words in lines of text. Views point into what was given.

#include <string_view>

namespace weft::report {

/// Without spaces, tabs and carriage returns on both sides.
inline std::string_view trimmed(std::string_view words) {
  constexpr std::string_view blanks = " \t\r";
  const auto begin = words.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return words.substr(begin, words.find_last_not_of(blanks) - begin + 1);
}

/// What stands behind the first `label`; empty where there is none.
inline std::string_view after(std::string_view words, std::string_view label) {
  const auto at = words.find(label);
  return at == std::string_view::npos ? std::string_view() : words.substr(at + label.size());
}

}  // namespace weft::report
