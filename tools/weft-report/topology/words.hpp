#pragma once
// A line taken apart, and a line as evidence.

#include <string>
#include <string_view>

#include "common/findings/words.hpp"

namespace weft::report::topology {

/// Takes the first word off `words`. Empty: there is none.
std::string_view take_word(std::string_view& words);
/// The line without codes of terminals (ESC [ ... letter).
std::string without_codes(std::string_view line);
/// The line as evidence: without codes, and cut where it is long.
std::string evidence_text(std::string_view line);

}  // namespace weft::report::topology
