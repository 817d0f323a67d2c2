#pragma once
// Strings as JSON writes them, bytes as digits, and the nearest of several names, for advice in error messages.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace weft::detail {

/// `raw` as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view raw);

/// Two hexadecimal digits a byte.
std::string hex_digits(std::span<const unsigned char> bytes);

/// Levenshtein distance: how many characters to insert, delete or replace. Takes |a| * |b| steps.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first of the names with the smallest edit distance to `name`. @param all not empty
template <class Names>
std::string nearest_name(const Names& all, std::string_view name) {
  return std::string(
      *std::ranges::min_element(all, {}, [&](const auto& one) { return edit_distance(one, name); }));
}

}  // namespace weft::detail
