#include "weft-launch/manifest/value.hpp"

#include <algorithm>
#include <array>

#include "core/base/number.hpp"

namespace weft::report::manifest {
namespace {

const Value nothing{};

bool all_of(std::string_view word, std::string_view allowed) {
  return !word.empty() && word.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_number(std::string_view word) {
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  if (word.starts_with("0x")) return all_of(word.substr(2), "0123456789abcdefABCDEF");
  const std::size_t exponent = word.find_first_of("eE");
  if (exponent != std::string_view::npos && exponent > 0) {
    std::string_view power = word.substr(exponent + 1);
    if (power.starts_with('-') || power.starts_with('+')) power.remove_prefix(1);
    if (!all_of(power, "0123456789")) return false;
    word = word.substr(0, exponent);
  }
  const std::size_t dot = word.find('.');
  const std::string_view before = word.substr(0, dot);
  const std::string_view after = dot == std::string_view::npos ? std::string_view("0") : word.substr(dot + 1);
  const auto digits = [](std::string_view part) { return part.empty() || all_of(part, "0123456789"); };
  return word.find_first_of("0123456789") != std::string_view::npos && digits(before) && digits(after);
}

}  // namespace

const Value& Value::operator[](std::string_view key) const {
  const auto found = std::ranges::find(members, key, &Member::key);
  return found == members.end() ? nothing : found->value;
}

const Value& Value::at(std::size_t index) const {
  return index < items.size() ? items[index] : nothing;
}

std::optional<long> Value::number() const {
  constexpr long most = 2147483647;  // so that products of two do not overflow
  const auto parsed = detail::number_of<long>(text);
  return kind == Kind::scalar && parsed && *parsed >= 0 && *parsed <= most ? parsed : std::nullopt;
}

bool Value::is_placeholder() const {
  const std::size_t dollar = text.find('$');
  const char next = dollar + 1 < text.size() && dollar != std::string::npos ? text[dollar + 1] : '\0';
  const bool is_variable =
      next == '{' || next == '_' || (next >= 'A' && next <= 'Z') || (next >= 'a' && next <= 'z');
  const bool is_marked = (text.starts_with("__") && text.ends_with("__") && text.size() > 4) ||
                         (text.starts_with('<') && text.ends_with('>'));
  return kind == Kind::scalar && (is_variable || is_marked || text.find("PLACEHOLDER") != std::string::npos);
}

bool Value::is_no_text() const {
  // sigs.k8s.io/yaml reads YAML 1.1, where these words are true and false.
  static constexpr std::array<std::string_view, 18> truths{"true", "True", "TRUE", "false", "False", "FALSE",
                                                           "yes",  "Yes",  "YES",  "no",    "No",    "NO",
                                                           "on",   "On",   "ON",   "off",   "Off",   "OFF"};
  if (kind == Kind::map || kind == Kind::list) return true;
  if (kind == Kind::null || quoted) return false;
  return is_number(text) || std::ranges::find(truths, text) != truths.end();
}

}  // namespace weft::report::manifest
