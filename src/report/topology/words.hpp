#pragma once
// A line taken apart, and a line as evidence.

#include <string>
#include <string_view>

namespace weft::report::topology {

/// Without spaces, tabs and carriage returns on both sides.
std::string_view trimmed(std::string_view words);
/// Takes the first word off `words`. Empty: there is none.
std::string_view take_word(std::string_view& words);
/// The line without codes of terminals (ESC [ ... letter).
std::string without_codes(std::string_view line);
/// The line as evidence: without codes, and cut where it is long.
std::string evidence_text(std::string_view line);

}  // namespace weft::report::topology
