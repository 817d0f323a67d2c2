#pragma once
// Strings as JSON writes them and as a terminal may show them, bytes as digits, and for advice in error messages the nearest of several names,
// and what helps against errno.

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft::detail {

/// `raw` as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view raw);

/// `raw` as a terminal may show it, in one line: what comes from a file, another process or the environment may hold anything. Control
/// characters, bytes that are not UTF-8, and characters that have no width or turn the direction of text become escapes that show them:
/// \n, \x1b, \xff, \u202e. A tab becomes a space. What is escaped stays the same when it is escaped again. Messages pass through it in
/// Error::what() and log::write(); who prints names that are not his own calls it.
std::string printable(std::string_view raw);

/// Two hexadecimal digits a byte.
std::string hex_digits(std::span<const unsigned char> bytes);

/// How many characters to insert, delete or replace, or neighbours to exchange (optimal string alignment). Takes |a| * |b| steps.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first of the names with the smallest edit distance to `name`, if it is near: one edit, or one for every three characters. A
/// name that resembles none must not be answered with a guess.
template <class Names>
std::optional<std::string> nearest_name(const Names& all, std::string_view name) {
  const auto distance = [&](const auto& one) { return edit_distance(one, name); };
  const auto best = std::ranges::min_element(all, {}, distance);
  if (best == std::ranges::end(all) || distance(*best) > std::max<std::size_t>(1, name.size() / 3))
    return std::nullopt;
  return std::string(*best);
}

/// What the reader of an error can do against errno's value, where that is the same whatever was called: a full disk, a limit. Else empty.
std::string usual_advice(int error);

/// "a, b, c"
template <class Names>
std::string listed(const Names& all) {
  std::string list;
  for (const auto& one : all) list.append(list.empty() ? "" : ", ").append(one);
  return list;
}

}  // namespace weft::detail
