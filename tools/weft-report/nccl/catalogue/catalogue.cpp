#include "weft-report/nccl/catalogue/catalogue.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "weft-report/nccl/phrases.hpp"
#include "weft/core/error.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

constexpr CatalogueRow row_table[] = {
#include "weft-report/nccl/catalogue/reasons.inc"
#include "weft-report/nccl/catalogue/rows.inc"
};

constexpr Topic topic_table[] = {
#include "weft-report/nccl/catalogue/topics.inc"
};

/// The text up to the next value, and what is left behind that value.
std::string_view take_literal(std::string_view& pattern) {
  const std::size_t end = std::min(pattern.find('{'), pattern.size());
  const std::string_view literal = pattern.substr(0, end);
  const auto close = pattern.find('}', end);
  pattern.remove_prefix(close == std::string_view::npos ? pattern.size() : close + 1);
  return literal;
}

const PhraseSet& phrases_of_rows() {
  static const PhraseSet phrases = [] {
    std::vector<std::string_view> all;
    for (const CatalogueRow& row : row_table) all.push_back(longest_text(row.pattern));
    return PhraseSet(all);
  }();
  return phrases;
}

}  // namespace

std::string_view longest_text(std::string_view pattern) {
  std::string_view longest;
  while (!pattern.empty()) {
    const std::string_view literal = take_literal(pattern);
    if (literal.size() > longest.size()) longest = literal;
  }
  return longest;
}

std::size_t text_in(std::string_view line, std::string_view pattern) {
  std::size_t letters = 0;
  while (!pattern.empty()) {
    const std::string_view literal = take_literal(pattern);
    const auto at = line.find(literal);
    if (at == std::string_view::npos) return 0;
    line.remove_prefix(at + literal.size());
    letters += literal.size();
  }
  return letters;
}

std::span<const CatalogueRow> rows() {
  return row_table;
}
std::span<const Topic> topics() {
  return topic_table;
}

const Topic& topic_of(std::uint16_t row) {
  const auto found = std::ranges::find(topic_table, row_table[row].topic, &Topic::name);
  if (found == std::end(topic_table))
    throw Error(ErrorKind::internal, text("no topic is named '", row_table[row].topic, "'"));
  return *found;
}

std::optional<std::uint16_t> row_of(std::string_view line) {
  // gIB is NCCL's own IB with another name in its lines.
  constexpr std::string_view gib = "NET/gIB";
  if (const auto at = line.find(gib); at != std::string_view::npos) {
    std::string renamed(line);
    for (auto next = at; next != std::string::npos; next = renamed.find(gib, next))
      renamed.replace(next, gib.size(), "NET/IB");
    return row_of(renamed);
  }
  std::optional<std::uint16_t> best;
  std::size_t most = 0;
  phrases_of_rows().scan(line, [&](std::uint16_t row) {
    const std::size_t letters = text_in(line, row_table[row].pattern);
    if (letters <= most) return;
    most = letters;
    best = row;
  });
  return best;
}

}  // namespace weft::report::nccl
