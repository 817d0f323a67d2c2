// Values in the types of their keys, as pydantic takes them where DeepSpeed checks with it.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/base/number.hpp"
#include "core/base/strings.hpp"
#include "deepspeed/resolving.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

Node boolean_of(bool value, const Node& from) {
  Node node;
  node.kind = Node::Kind::boolean;
  node.line = from.line;
  node.boolean = value;
  return node;
}

/// A number that stands in quotes.
std::optional<Node> number_in(const Node& value) {
  Node node;
  node.kind = Node::Kind::number;
  node.line = value.line;
  const char* const end = value.text.data() + value.text.size();
  const auto [stop, error] = std::from_chars(value.text.data(), end, node.number);
  if (value.text.empty() || error != std::errc() || stop != end || !std::isfinite(node.number))
    return std::nullopt;
  std::int64_t whole = 0;
  const auto exact = std::from_chars(value.text.data(), end, whole);
  if (exact.ec == std::errc() && exact.ptr == end) node.integer = whole;
  return node;
}

std::optional<Node> as_boolean(const Node& value, bool is_checked) {
  if (value.kind == Node::Kind::boolean) return value;
  if (value.kind == Node::Kind::number && value.integer && (*value.integer == 0 || *value.integer == 1))
    return boolean_of(*value.integer == 1, value);
  if (!is_checked || value.kind != Node::Kind::string) return std::nullopt;
  const std::string word = lowered(value.text);
  for (const char* const yes : {"true", "t", "yes", "y", "on", "1"}) {
    if (word == yes) return boolean_of(true, value);
  }
  for (const char* const no : {"false", "f", "no", "n", "off", "0"}) {
    if (word == no) return boolean_of(false, value);
  }
  return std::nullopt;
}

std::optional<Node> as_number(const Node& value, bool is_checked, bool is_whole) {
  std::optional<Node> node;
  if (value.kind == Node::Kind::number) node = value;
  if (is_checked && value.kind == Node::Kind::string) node = number_in(value);
  if (node && is_whole && !node->integer) return std::nullopt;
  return node;
}

/// Where DeepSpeed does not check, it ignores capitals.
std::optional<Node> as_word(const Key& key, const Node& value, bool is_checked) {
  if (value.kind != Node::Kind::string) return std::nullopt;
  for (const std::string_view word : key.words) {
    if (value.text != word && (is_checked || lowered(value.text) != lowered(std::string(word)))) continue;
    Node node = value;
    node.text = word;
    return node;
  }
  return std::nullopt;
}

bool all_are(const Node& value, Node::Kind kind) {
  return std::ranges::all_of(value.items, [&](const Node& item) { return item.kind == kind; });
}

std::optional<Node> as_list(const Node& value, bool is_checked) {
  if (value.kind == Node::Kind::array && all_are(value, Node::Kind::string)) return value;
  if (!is_checked || value.kind != Node::Kind::string) return std::nullopt;
  Node node;
  node.kind = Node::Kind::array;
  node.line = value.line;
  node.items.push_back(value);
  return node;
}

std::optional<Node> in_type(const Key& key, const Node& value, bool is_checked) {
  switch (key.type) {
    case KeyType::boolean:
      return as_boolean(value, is_checked);
    case KeyType::integer:
    case KeyType::number:
      return as_number(value, is_checked, key.type == KeyType::integer);
    case KeyType::word:
      return as_word(key, value, is_checked);
    case KeyType::list:
      return as_list(value, is_checked);
    case KeyType::string:
      return value.kind == Node::Kind::string ? std::optional(value) : std::nullopt;
    case KeyType::pair:
      return value.kind == Node::Kind::array && value.items.size() == 2 && all_are(value, Node::Kind::number)
                 ? std::optional(value)
                 : std::nullopt;
    case KeyType::any:
    case KeyType::section:
      break;
  }
  return value;
}

}  // namespace

std::string lowered(std::string word) {
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

void refuse_config(const std::string& called, int line, const std::string& problem,
                   const std::string& advice) {
  throw Error(ErrorKind::usage,
              line > 0 ? text(called, ":", line, ": ", problem) : text(called, ": ", problem), advice);
}

Node coerced(const Key& key, const Node& value, const std::string& called) {
  if (value.kind == Node::Kind::null && key.fallback == "null") return value;
  const std::optional<Node> node = in_type(key, value, is_checked_section(key.section()));
  const bool is_number = key.type == KeyType::integer || key.type == KeyType::number;
  if (!node || (is_number && (node->number < key.least || node->number > key.most))) {
    std::string json = to_json(value);
    if (json.size() > 60) json = json.substr(0, 57) + "...";
    const auto near = key.type == KeyType::word && value.kind == Node::Kind::string
                          ? nearest_name(key.words, value.text)
                          : std::optional<std::string>();
    refuse_config(called, value.line, text(key.path, " is ", json),
                  text("it is ", key.allowed, near ? text("; did you mean ", *near, "?") : ""));
  }
  return *node;
}

bool same_json(std::string_view a, std::string_view b) {
  const std::optional<double> one = number_of<double>(a);
  return a == b || (one && one == number_of<double>(b));
}

}  // namespace weft::detail
