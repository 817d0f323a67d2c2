// A value without quotes is true, false, null or a number where , } ] a comment or the line's end follows it. Anything else without quotes is
// a string up to the line's end, with its commas and brackets.

#include "deepspeed/hjson.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr int deepest = 64;
constexpr std::string_view punctuation = "{}[],:";

std::string_view stripped(std::string_view words) {
  constexpr std::string_view blanks = " \t\r\n\f\v";
  const std::size_t first = words.find_first_not_of(blanks);
  return first == std::string_view::npos ? ""
                                         : words.substr(first, words.find_last_not_of(blanks) - first + 1);
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& called) : text_(text), called_(called) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  Node root() {
    skip();
    Node node;
    if (next() == '{') {
      node = value(0);
    } else if (next() == '[') {
      refuse("a configuration is an object, and this is an array");
    } else {
      node = object(0, false);
    }
    skip();
    if (at_ < text_.size())
      refuse("something follows the configuration's last bracket", "remove it, or add the bracket before");
    return node;
  }

 private:
  char next(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool ends() const { return at_ >= text_.size(); }
  bool ends_line() const { return ends() || next() == '\n' || next() == '\r'; }
  void step() {
    if (text_[at_++] == '\n') ++line_;
  }
  [[noreturn]] void refuse(const std::string& problem, const std::string& advice = {}, int line = 0) const {
    throw Error(ErrorKind::usage, text(called_, ":", line > 0 ? line : line_, ": ", problem), advice);
  }
  bool at_comment() const { return next() == '#' || (next() == '/' && (next(1) == '/' || next(1) == '*')); }

  /// Blanks and comments.
  void skip() {
    while (!ends()) {
      if (next() == ' ' || next() == '\t' || next() == '\n' || next() == '\r') {
        step();
      } else if (at_comment() && next(1) == '*' && next() == '/') {
        const int begun = line_;
        const std::size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) refuse("the comment has no end", "add */", begun);
        while (at_ < end + 2) step();
      } else if (at_comment()) {
        while (!ends_line()) step();
      } else {
        return;
      }
    }
  }

  Node value(int depth) {
    if (depth > deepest) refuse(text("brackets are more than ", deepest, " deep"));
    Node node;
    node.line = line_;
    if (ends()) refuse("the text ends where a value is expected");
    if (next() == '{') {
      step();
      return object(depth, true);
    }
    if (next() == '[') {
      step();
      array(node, depth);
    } else if (text_.substr(at_, 3) == "'''") {
      node.kind = Node::Kind::string;
      node.text = lines();
    } else if (next() == '"' || next() == '\'') {
      node.kind = Node::Kind::string;
      node.text = quoted();
    } else {
      without_quotes(node);
    }
    return node;
  }

  Node object(int depth, bool in_brackets) {
    Node node;
    node.kind = Node::Kind::object;
    node.line = line_;
    std::map<std::string, int> lines_of;
    for (skip(); in_brackets ? next() != '}' : !ends(); skip()) {
      if (ends()) refuse("the text ends within a { }", "", node.line);
      const int line = line_;
      std::string key = next() == '"' || next() == '\'' ? quoted() : key_without_quotes();
      skip();
      if (next() != ':') refuse(text("no : follows the key ", json_string(key)));
      step();
      skip();
      const auto [first, is_new] = lines_of.emplace(key, line);
      if (!is_new)
        refuse(text("the key ", json_string(key), " is there twice, first in line ", first->second),
               "remove one", line);
      Node read = value(depth + 1);
      read.line = line;
      node.members.push_back({std::move(key), std::move(read)});
      skip();
      if (next() == ',') step();
    }
    if (in_brackets) step();
    return node;
  }

  void array(Node& node, int depth) {
    node.kind = Node::Kind::array;
    for (skip(); next() != ']'; skip()) {
      if (ends()) refuse("the text ends within a [ ]", "", node.line);
      node.items.push_back(value(depth + 1));
      skip();
      if (next() == ',') step();
    }
    step();
  }

  std::string key_without_quotes() {
    const std::size_t begin = at_;
    while (!ends() && next() != ':') {
      if (punctuation.find(next()) != std::string_view::npos)
        refuse(text("'", next(), "' is where a key is expected"), "keys with {}[], or blanks have quotes");
      step();
    }
    if (ends()) refuse("the text ends where a key is expected");
    const std::string_view key = stripped(text_.substr(begin, at_ - begin));
    if (key.empty()) refuse("a : without a key before it");
    if (key.find_first_of(" \t\r\n") != std::string_view::npos)
      refuse(text("blanks are within the key ", json_string(key)),
             "give it quotes, or end the value before it");
    return std::string(key);
  }

  std::string quoted() {
    const int line = line_;
    const char quote = next();
    std::string out;
    for (step(); next() != quote || ends();) {
      if (ends()) refuse("the string has no end", "", line);
      const char c = next();
      if (static_cast<unsigned char>(c) < 0x20)
        refuse("a string has a line's end or another control character", "close its quotes, or write \\n");
      step();
      if (c == '\\') {
        escape(out);
      } else {
        out += c;
      }
    }
    step();
    return out;
  }

  std::uint32_t four_digits() {
    std::uint32_t code = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4)
      refuse("\\u is not followed by four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void escape(std::string& out) {
    constexpr std::string_view names = "\"'\\/bfnrt";
    constexpr std::string_view meant = "\"'\\/\b\f\n\r\t";
    const char c = next();
    if (c == 'u') {
      step();
      std::uint32_t code = four_digits();
      if (code >= 0xd800 && code < 0xdc00 && next() == '\\' && next(1) == 'u') {
        at_ += 2;
        const std::uint32_t low = four_digits();
        if (low < 0xdc00 || low > 0xdfff) refuse("half a surrogate pair is in a string");
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
      } else if (code >= 0xd800 && code < 0xe000) {
        refuse("half a surrogate pair is in a string");
      }
      append_utf8(out, code);
      return;
    }
    const std::size_t which = ends() ? std::string_view::npos : names.find(c);
    if (which == std::string_view::npos) refuse("a string has an unknown escape after \\");
    out += meant[which];
    step();
  }

  /// Between ''' and '''. Of each line as many blanks are left out as stand before the opening '''.
  std::string lines() {
    const int line = line_;
    const std::size_t newline = at_ == 0 ? std::string_view::npos : text_.rfind('\n', at_ - 1);
    const std::size_t indent = newline == std::string_view::npos ? at_ : at_ - newline - 1;
    const auto skip_blanks = [&](std::size_t most) {
      while (most-- > 0 && !ends() && (next() == ' ' || next() == '\t' || next() == '\r')) step();
    };
    at_ += 3;
    skip_blanks(text_.size());
    if (next() == '\n') {
      step();
      skip_blanks(indent);
    }
    std::string out;
    while (text_.substr(at_, 3) != "'''") {
      if (ends()) refuse("the string of several lines has no end", "add '''", line);
      const char c = next();
      step();
      if (c != '\r') out += c;
      if (c == '\n') skip_blanks(indent);
    }
    at_ += 3;
    if (out.ends_with('\n')) out.pop_back();
    return out;
  }

  /// Whether a value without quotes may end at this place.
  bool ends_value(std::size_t place) const {
    if (place >= text_.size()) return true;
    const char c = text_[place];
    const char after = place + 1 < text_.size() ? text_[place + 1] : '\0';
    return c == '\n' || c == '\r' || c == ',' || c == '}' || c == ']' || c == '#' ||
           (c == '/' && (after == '/' || after == '*'));
  }

  void without_quotes(Node& node) {
    if (punctuation.find(next()) != std::string_view::npos)
      refuse(text("'", next(), "' is where a value is expected"));
    const auto beyond = [&](std::size_t length, std::string_view blanks) {
      std::size_t place = at_ + length;
      while (place < text_.size() && blanks.find(text_[place]) != std::string_view::npos) ++place;
      return place;
    };
    constexpr std::array<std::string_view, 3> words{"null", "true", "false"};
    for (const std::string_view word : words) {
      const std::size_t end = beyond(word.size(), " \t\f\v");
      if (text_.substr(at_, word.size()) != word || !ends_value(end)) continue;
      node.kind = word == "null" ? Node::Kind::null : Node::Kind::boolean;
      node.boolean = word == "true";
      at_ = end;
      return;
    }
    if (const std::size_t length = number_length(); length > 0 && ends_value(beyond(length, " \t"))) {
      number(node, text_.substr(at_, length));
      at_ = beyond(length, " \t");
      return;
    }
    const std::size_t begin = at_;
    while (!ends_line()) step();
    node.kind = Node::Kind::string;
    node.text = stripped(text_.substr(begin, at_ - begin));
  }

  /// JSON's grammar; 0 if there is no number.
  std::size_t number_length() const {
    std::size_t place = at_;
    const auto digits = [&] {
      const std::size_t begin = place;
      while (place < text_.size() && text_[place] >= '0' && text_[place] <= '9') ++place;
      return place - begin;
    };
    if (next() == '-') ++place;
    const std::size_t whole = place;
    const std::size_t count = digits();
    if (count == 0) return 0;
    if (text_[whole] == '0') place = whole + 1;
    std::size_t end = place;
    if (place < text_.size() && text_[place] == '.' && (++place, digits() > 0)) end = place;
    place = end;
    if (place < text_.size() && (text_[place] == 'e' || text_[place] == 'E')) {
      ++place;
      if (place < text_.size() && (text_[place] == '+' || text_[place] == '-')) ++place;
      if (digits() > 0) end = place;
    }
    return end - at_;
  }

  void number(Node& node, std::string_view digits) const {
    node.kind = Node::Kind::number;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), node.number);
    if (error != std::errc() || !std::isfinite(node.number))
      refuse(text("the number ", digits.substr(0, 40), " is out of the range of a double"));
    std::int64_t whole = 0;
    const auto exact = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
    if (exact.ec == std::errc() && exact.ptr == digits.data() + digits.size()) {
      node.integer = whole;
    } else if (std::trunc(node.number) == node.number && std::abs(node.number) < 9.2e18) {
      node.integer = static_cast<std::int64_t>(node.number);
    }
  }

  std::string_view text_;
  const std::string& called_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Node read_hjson(std::string_view text, const std::string& called) {
  return Reader(text, called).root();
}

}  // namespace weft::detail
