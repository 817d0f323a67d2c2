#include "weft-report/nccl/formats.hpp"

#include <algorithm>
#include <cstddef>

namespace weft::report::nccl {
namespace {

constexpr LineFormat format_table[] = {
#include "weft-report/nccl/formats.inc"
};

constexpr std::string_view decimal_digits = "0123456789";
constexpr std::string_view hex_digits = "0123456789abcdefABCDEF";

std::size_t run_of(std::string_view words, std::string_view letters) {
  return std::min(words.find_first_not_of(letters), words.size());
}
std::size_t whole(std::string_view words) {
  const std::size_t sign = words.starts_with('-') ? 1 : 0;
  const std::size_t run = run_of(words.substr(sign), decimal_digits);
  return run == 0 ? 0 : sign + run;
}
std::size_t hexadecimal(std::string_view words) {
  const std::size_t prefix = words.starts_with("0x") ? 2 : 0;
  const std::size_t run = run_of(words.substr(prefix), hex_digits);
  return run == 0 ? 0 : prefix + run;
}
std::size_t decimal(std::string_view words) {
  const std::size_t before = whole(words);
  if (before == 0 || words.size() == before || words[before] != '.') return before;
  return before + 1 + run_of(words.substr(before + 1), decimal_digits);
}
std::size_t address(std::string_view words) {
  constexpr std::string_view null = "(nil)";
  return words.starts_with(null) ? null.size() : hexadecimal(words);
}

/// How many letters of `words` are the value. @param behind what follows it in the pattern. 0: none, but for text, which may be empty
std::optional<std::size_t> length_of(char kind, std::string_view words, std::string_view behind) {
  if (kind == 's') {
    const std::size_t end = behind.empty() ? words.size() : words.find(behind);
    return end == std::string_view::npos ? std::nullopt : std::optional(end);
  }
  const std::size_t length = kind == 'd'   ? whole(words)
                             : kind == 'x' ? hexadecimal(words)
                             : kind == 'f' ? decimal(words)
                                           : address(words);
  return length == 0 ? std::nullopt : std::optional(length);
}

/// The pattern up to its next value.
std::string_view literal_at_begin(std::string_view pattern) {
  return pattern.substr(0, pattern.find('%'));
}

}  // namespace

std::span<const LineFormat> line_formats() {
  return format_table;
}

std::optional<std::vector<std::string_view>> values_in(std::string_view message, std::string_view pattern) {
  std::vector<std::string_view> values;
  for (;;) {
    const std::string_view literal = literal_at_begin(pattern);
    if (!message.starts_with(literal)) return std::nullopt;
    message.remove_prefix(literal.size());
    pattern.remove_prefix(literal.size());
    if (pattern.empty()) return values;
    const char kind = pattern[1];
    pattern.remove_prefix(2);
    const auto length = length_of(kind, message, literal_at_begin(pattern));
    if (!length) return std::nullopt;
    values.push_back(message.substr(0, *length));
    message.remove_prefix(*length);
  }
}

std::string_view longest_literal(std::string_view pattern) {
  std::string_view longest;
  while (!pattern.empty()) {
    const std::string_view literal = literal_at_begin(pattern);
    if (literal.size() > longest.size()) longest = literal;
    pattern.remove_prefix(std::min(pattern.size(), literal.size() + 2));
  }
  return longest;
}

}  // namespace weft::report::nccl
