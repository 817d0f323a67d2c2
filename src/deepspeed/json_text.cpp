// Values as JSON, and characters as UTF-8.

#include <array>
#include <charconv>

#include "core/base/strings.hpp"
#include "deepspeed/hjson.hpp"
#include "weft/core/text.hpp"

namespace weft::detail {

void append_utf8(std::string& out, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f));
  } else {
    byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f)), byte(0x80 | (code >> 6 & 0x3f)),
        byte(0x80 | (code & 0x3f));
  }
}

std::string to_json(double number) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

std::string to_json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::boolean:
      return node.boolean ? "true" : "false";
    case Node::Kind::number:
      return node.integer ? text(*node.integer) : to_json(node.number);
    case Node::Kind::string:
      return json_string(node.text);
    case Node::Kind::array:
    case Node::Kind::object:
      break;
  }
  std::string inner;
  for (const Node& item : node.items) inner.append(inner.empty() ? "" : ", ").append(to_json(item));
  for (const Member& member : node.members)
    inner.append(inner.empty() ? "" : ", ").append(json_string(member.name) + ": " + to_json(member.value));
  return node.kind == Node::Kind::array ? "[" + inner + "]" : "{" + inner + "}";
}

}  // namespace weft::detail
