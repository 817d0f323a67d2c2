#pragma once
// A table of figures as HTML. Cells are plain text; the first of a row is its heading.

#include <string>
#include <vector>

namespace weft::report {

/// @param caption what the table is of, read out by screen readers @param words how many columns after the
/// first hold words, which stand on the left; the others are numbers
std::string table(const std::string& caption, const std::vector<std::string>& heading,
                  const std::vector<std::vector<std::string>>& rows, std::size_t words = 0);

}  // namespace weft::report
