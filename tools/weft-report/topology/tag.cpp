#include "weft-report/topology/tag.hpp"

#include <algorithm>

#include "weft-report/topology/words.hpp"

namespace weft::report::topology {
namespace {

/// A time or a date, which differ from line to line.
bool is_stamp(std::string_view word) {
  return word.size() >= 5 && word.find_first_not_of("0123456789-:.,/TZ+[]") == std::string_view::npos &&
         word.find_first_of("0123456789") != std::string_view::npos &&
         word.find_first_of(":-.") != std::string_view::npos;
}

}  // namespace

Tag::Tag(std::string_view words) : words_(trimmed(words)) {}

bool Tag::strip(std::string_view& line) const {
  std::string_view mine = words_;
  std::string_view rest = line;
  for (std::string_view word = take_word(mine); !word.empty(); word = take_word(mine)) {
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" \t\r")));
    if (is_stamp(word)) {
      if (!is_stamp(take_word(rest))) return false;
    } else if (rest.starts_with(word)) {
      rest.remove_prefix(word.size());
    } else {
      return false;
    }
  }
  line = rest;
  return true;
}

std::string Tag::host() const {
  std::string_view word = words_;
  if (!word.ends_with(':') || word.find_first_of("[]<>() \t") != std::string_view::npos) return {};
  word.remove_suffix(1);
  const bool number = word.find_first_not_of("0123456789") == std::string_view::npos;
  return number ? std::string() : std::string(word);
}

}  // namespace weft::report::topology
