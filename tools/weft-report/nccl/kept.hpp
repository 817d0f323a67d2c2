#pragma once
// How a line's values become facts: the first counts, and one whose line was cut gives way to the whole.

#include <string_view>
#include <vector>

#include "common/findings/words.hpp"
#include "weft-report/nccl/statements.hpp"

namespace weft::report::nccl {

inline constexpr std::size_t most_kept = 64;  // of a kind, where a log could hold any number of them

/// Whether a value is another one whose line was cut.
inline bool is_cut(std::string_view value, std::string_view whole) {
  return value.size() < whole.size() && whole.starts_with(value);
}
/// The first value counts: later communicators of the process repeat it. One that was cut gives way to the whole.
inline bool keep(Fact& fact, std::string_view value, const Said& said) {
  if (value.empty()) return false;
  if (!fact || is_cut(fact.value, value)) fact = {std::string(value), said.evidence()};
  return true;
}
/// Adds a value that is not there yet.
inline bool keep(std::vector<Fact>& facts, std::string_view value, const Said& said) {
  if (value.empty()) return false;
  for (Fact& known : facts) {
    if (known.value == value || is_cut(value, known.value)) return true;
    if (is_cut(known.value, value)) return keep(known, value, said);
  }
  if (facts.size() < most_kept) facts.push_back({std::string(value), said.evidence()});
  return true;
}

}  // namespace weft::report::nccl
