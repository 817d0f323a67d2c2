#pragma once
// What a CSV file says, step by step: cells, their dialect, and what they are of.

#include <string_view>
#include <vector>

#include "weft/pipeline/csv.hpp"

namespace weft::pipeline::detail {

struct CsvCells {
  std::vector<std::vector<Action>> rows;
  std::vector<std::vector<std::int32_t>> columns;  ///< of each entry, from 1
  bool old_words = false;                          ///< read in the words of before October 2024
};

bool has_word(const Action& action, CsvFormat format);

/// Cells as written. Where `dialect` is to be detected, any BW makes it the old one.
CsvCells read_cells(std::string_view text, CsvFormat format, Dialect dialect);
/// What B means, where it takes other cells to tell.
void settle_dialect(CsvCells& cells, Dialect dialect);
void expect_no_repeats(const CsvCells& cells);
int microbatches_of(const CsvCells& cells);
/// The device of each stage.
std::vector<int> placement_of(const CsvCells& cells);

}  // namespace weft::pipeline::detail
