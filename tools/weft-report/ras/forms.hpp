#pragma once
// The two forms of an answer, for parse_answer().

#include "weft-report/ras/answer.hpp"

namespace weft::report::ras {

/// @param first the line of the file in which the bytes begin
Answer parse_text(std::string_view bytes, const std::string& file, int first);
Answer parse_json(std::string_view bytes, const std::string& file);

/// A hash in hexadecimal, as both forms have it: without "0x" and leading zeros.
std::string plain_hash(std::string_view digits);

}  // namespace weft::report::ras
