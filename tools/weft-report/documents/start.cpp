#include "weft-report/documents/start.hpp"

namespace weft::report::documents {
namespace {

constexpr std::string_view blanks = " \t\r\n";

void skip_blanks(std::string_view& text) {
  const auto begin = text.find_first_not_of(blanks);
  text.remove_prefix(begin == std::string_view::npos ? text.size() : begin);
}
/// Removes what opens with `open` and ends with `close`. Without an end all of it goes.
bool skip_part(std::string_view& text, std::string_view open, std::string_view close) {
  if (!text.starts_with(open)) return false;
  const auto end = text.find(close, open.size());
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + close.size());
  return true;
}
/// A document type, with the declarations in it.
bool skip_doctype(std::string_view& text) {
  if (!text.starts_with("<!DOCTYPE")) return false;
  const auto bracket = text.find('[');
  const bool declares = bracket < text.find('>');
  if (declares) text.remove_prefix(bracket);
  return skip_part(text, text.substr(0, 1), declares ? "]>" : ">");
}

/// Where the value that begins `text` with a bracket ends; npos: behind the text.
std::size_t end_of_value(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

std::string_view xml_root(std::string_view start) {
  skip_part(start, "\xef\xbb\xbf", "");
  for (;;) {
    skip_blanks(start);
    if (!skip_part(start, "<?", "?>") && !skip_part(start, "<!--", "-->") && !skip_doctype(start)) break;
  }
  if (!start.starts_with('<')) return {};
  start.remove_prefix(1);
  const auto end = start.find_first_of(" \t\r\n/>");
  return end == std::string_view::npos ? std::string_view() : start.substr(0, end);
}

bool opens_json(std::string_view start) {
  skip_part(start, "\xef\xbb\xbf", "");
  skip_blanks(start);
  if (!start.starts_with('{') && !start.starts_with('[')) return false;
  std::string_view inside = start.substr(1);
  skip_blanks(inside);
  const std::string_view may_follow = start.front() == '{' ? "\"}" : "\"{[]-0123456789tfn";
  if (inside.empty() || may_follow.find(inside.front()) == std::string_view::npos) return false;
  const auto end = end_of_value(start);
  return end == std::string_view::npos || start.find_first_not_of(blanks, end) == std::string_view::npos;
}

}  // namespace weft::report::documents
