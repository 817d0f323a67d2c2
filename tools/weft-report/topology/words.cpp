#include "weft-report/topology/words.hpp"

#include <algorithm>

namespace weft::report::topology {
namespace {

constexpr std::string_view blanks = " \t\r";
constexpr std::size_t longest_quote = 300;

}  // namespace

std::string_view take_word(std::string_view& words) {
  words.remove_prefix(std::min(words.size(), words.find_first_not_of(blanks)));
  const std::string_view word = words.substr(0, words.find_first_of(blanks));
  words.remove_prefix(word.size());
  return word;
}

std::string without_codes(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') ++i;
    while (i + 1 < line.size() && (line[i + 1] < '@' || line[i + 1] > '~')) ++i;
    ++i;
  }
  return plain;
}

std::string evidence_text(std::string_view line) {
  std::string plain = without_codes(line.substr(0, 4 * longest_quote));
  plain.resize(plain.find_last_not_of(blanks) + 1);
  const bool cut = plain.size() > longest_quote || line.size() > 4 * longest_quote;
  plain.resize(std::min(plain.size(), longest_quote));
  return cut ? plain + " ..." : plain;
}

}  // namespace weft::report::topology
