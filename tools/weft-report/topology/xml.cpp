#include "weft-report/topology/xml.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/number.hpp"
#include "weft-report/topology/words.hpp"
#include "weft/core/error.hpp"

namespace weft::report::topology {
Xml::Xml(std::string_view content, const std::string& file) : content_(content), file_(file) {
  for (auto at = content.find('\n'); at != std::string_view::npos; at = content.find('\n', at + 1))
    line_ends_.push_back(at);
  const pugi::xml_parse_result result =
      document_.load_buffer(content.data(), content.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result)
    throw Error(ErrorKind::usage,
                text("line ", line_of(static_cast<std::size_t>(result.offset)), ": ", result.description()),
                "write it anew");
}

pugi::xml_node Xml::root(const char* name) const {
  const pugi::xml_node root = document_.child(name);
  if (!root) throw Error(ErrorKind::usage, text("it has no element <", name, ">"));
  const std::int64_t version = integer(root, "version", -1);
  if (version != 1)
    refuse(root, text("version \"", value(root, "version"), "\" of <", name, ">; 1 is known"));
  return root;
}

Evidence Xml::evidence(const pugi::xml_node& node) const {
  const auto offset = static_cast<std::size_t>(std::max<std::ptrdiff_t>(node.offset_debug(), 0));
  const int line = line_of(offset);
  const std::size_t begin = line == 1 ? 0 : line_ends_[static_cast<std::size_t>(line) - 2] + 1;
  return {file_, line, evidence_text(trimmed(content_.substr(begin, content_.find('\n', begin) - begin)))};
}

void Xml::refuse(const pugi::xml_node& node, const std::string& problem) const {
  throw Error(ErrorKind::usage, text("line ", evidence(node).line, ": ", problem));
}

int Xml::line_of(std::size_t offset) const {
  return static_cast<int>(std::ranges::lower_bound(line_ends_, offset) - line_ends_.begin()) + 1;
}

std::string value(const pugi::xml_node& node, const char* attribute) {
  return std::string(std::string_view(node.attribute(attribute).value()).substr(0, longest_value));
}

std::int64_t integer(const pugi::xml_node& node, const char* attribute, std::int64_t otherwise) {
  std::string_view digits = node.attribute(attribute).value();
  const bool hexadecimal = digits.starts_with("0x");
  if (hexadecimal) digits.remove_prefix(2);
  return detail::number_of<std::int64_t>(digits, hexadecimal ? 16 : 10).value_or(otherwise);
}

int small(const pugi::xml_node& node, const char* attribute, int otherwise) {
  constexpr std::int64_t most = 1 << 20;
  const std::int64_t number = integer(node, attribute, otherwise);
  return number < 0 || number > most ? otherwise : static_cast<int>(number);
}

double real(const pugi::xml_node& node, const char* attribute) {
  const std::string_view digits = node.attribute(attribute).value();
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && std::isfinite(number) ? number : 0;
}

}  // namespace weft::report::topology
